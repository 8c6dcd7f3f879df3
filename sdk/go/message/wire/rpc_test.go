package wire

import (
	"net/http"
	"net/url"
	"testing"
)

func TestRPCsAreNamedByTheirProcedures(t *testing.T) {
	grpc := http.Header{"Content-Type": {"application/grpc+proto"}}
	connect := http.Header{"Content-Type": {"application/json"}, "Connect-Protocol-Version": {"1"}}
	for _, c := range []struct {
		method, url string
		header      http.Header
		name        string
	}{
		{"POST", "/grpc.health.v1.Health/Check", grpc, "POST /grpc.health.v1.Health/Check"},
		{"POST", "/acme.checkout.v1beta1.CheckoutService/Pay?x=1", connect, "POST /acme.checkout.v1beta1.CheckoutService/Pay"},
		{"POST", "/tenants/17/acme.checkout.v1.CheckoutService/Pay", connect, "POST /tenants/{id}/acme.checkout.v1.CheckoutService/Pay"},
		{"GET", "/acme.checkout.v1.CheckoutService/Get?encoding=json&message=%7B%7D&connect=v1", http.Header{}, "GET /acme.checkout.v1.CheckoutService/Get"},
		{"POST", "/acme.checkout.v1.CheckoutService/Pay", http.Header{"Content-Type": {"application/json"}}, ""},
		{"POST", "/Pay", grpc, ""},
		{"POST", "", grpc, ""},
	} {
		u, err := url.Parse(c.url)
		if err != nil {
			t.Fatal(err)
		}
		if name, ok := ProcedureName(c.method, u, c.header); name != c.name || ok != (c.name != "") {
			t.Errorf("%s %s: %q", c.method, c.url, name)
		}
	}
}

func TestBodiesOfFramesHaveNoTail(t *testing.T) {
	for kind, framed := range map[string]bool{"application/grpc": true, "application/grpc-web-text+proto": true, "application/connect+json": true,
		"Application/GRPC; x=1": true, "application/proto": false, "application/json": false, "": false} {
		reply := http.Header{"Content-Type": {kind}}
		if IsFramed(reply) != framed || AllowsTail(AcceptTail, "POST", http.Header{}, 200, reply) == framed {
			t.Error(kind)
		}
	}
}

func TestTrailersAreAcceptedByName(t *testing.T) {
	for te, want := range map[string]bool{"trailers": true, "gzip, Trailers;q=1": true, "gzip": false, "": false} {
		if AcceptsTrailers(http.Header{"Te": {te}}) != want {
			t.Error(te)
		}
	}
}
