package auto_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	health_v1 "google.golang.org/grpc/health/grpc_health_v1"

	faultloom "faultloom.dev/go"
	_ "faultloom.dev/go/auto"
	"faultloom.dev/go/internal/suite"
)

func TestMain(m *testing.M) {
	os.Setenv("FAULTLOOM_SERVICE", "whole")
	os.Setenv("FAULTLOOM_TRUST", strings.ReplaceAll(suite.Settings, "\n", ";"))
	os.Exit(m.Run())
}

func TestOneLineHooksGRPCAndHTTP(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	health_v1.RegisterHealthServer(server, health.NewServer())
	go server.Serve(l)
	defer server.Stop()
	cc, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Close()
	front := httptest.NewServer(faultloom.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out, err := health_v1.NewHealthClient(cc).Check(r.Context(), &health_v1.HealthCheckRequest{})
		io.WriteString(w, out.GetStatus().String())
		if err != nil {
			t.Error(err)
		}
	})))
	defer front.Close()
	watch := func(ctx context.Context) (string, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		s, err := health_v1.NewHealthClient(cc).Watch(ctx, &health_v1.HealthCheckRequest{})
		if err != nil {
			return "", err
		}
		out, err := s.Recv()
		return out.GetStatus().String(), err
	}
	ctx, request, err := faultloom.Start(context.Background(), faultloom.Options{Service: "loadgen"})
	if err != nil {
		t.Fatal(err)
	}
	if _, body, err := suite.Get(ctx, http.DefaultClient, front.URL); err != nil || body != "SERVING" {
		t.Fatal(body, err)
	}
	if state, err := watch(ctx); err != nil || state != "SERVING" {
		t.Fatal(state, err)
	}
	if _, ok := http.DefaultTransport.(*http.Transport); !ok {
		t.Error("the default transport is of another type now")
	}
	h, err := request.FinishHistory()
	if err != nil {
		t.Fatal(err)
	}
	suite.Expect(t, h.Segment, `loadgen ""`, "  1 send GET / to "+front.URL[7:], "  1 reply 200",
		`    whole "GET /"`, "      1 send /grpc.health.v1.Health/Check to "+l.Addr().String(), "      1 reply 0",
		`        whole ""`, "          answer 0", "      answer 200",
		"  2 send /grpc.health.v1.Health/Watch to "+l.Addr().String(), "  2 failed 1", `    whole "" truncated`, "  answer 0")
}
