package suite

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"faultloom.dev/go/message/hooks/httphook"
	"faultloom.dev/go/message/scope"
	"faultloom.dev/go/message/trust"
	"faultloom.dev/go/message/wire"
)

// propagatingHop is a hop that propagates both headers and does nothing else.
var propagatingHop = Hop{
	Server: []grpc.ServerOption{grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		h := http.Header{}
		for _, k := range []string{wire.TraceparentKey, wire.BaggageKey} {
			for _, v := range md[k] {
				h.Add(k, v)
			}
		}
		return next(context.WithValue(ctx, headersKey{}, h), req)
	})},
	Dial: []grpc.DialOption{grpc.WithUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		h, _ := ctx.Value(headersKey{}).(http.Header)
		for k, values := range h {
			for _, v := range values {
				ctx = metadata.AppendToOutgoingContext(ctx, k, v)
			}
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	})},
	Handler: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h := http.Header{}
			for _, k := range []string{wire.TraceparentKey, wire.BaggageKey} {
				for _, v := range r.Header.Values(k) {
					h.Add(k, v)
				}
			}
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), headersKey{}, h)))
		})
	},
	Transport: func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			h, _ := r.Context().Value(headersKey{}).(http.Header)
			r = r.Clone(r.Context())
			for k, v := range h {
				r.Header[k] = v
			}
			return next.RoundTrip(r)
		})
	},
}

type headersKey struct{}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

const sampleTraceparent = "00-0102030405060708090a0b0c0d0e0f10-1112131415161718-01"

// A service that samples every request traces each of them once. The replies are the same as without the SDK, and
// services further on do not sample the request again.
func sampled(t *testing.T) {
	c := NewCollector(t)
	backProcess := Process(t, "back")
	backProcess.Sampler = c.Sampler(1, false) // samples, too, but its requests come with envelopes
	back := serve(t, methods{"Get": echo}, withHooks(backProcess))
	to := dial(t, back)
	process := Process(t, "front")
	process.Sampler = c.Sampler(1, true)
	get := func(ctx context.Context) error { _, err := call(ctx, to, "Get", []byte("x")); return err }
	front := serveAll(t, methods{"Page": func(ctx context.Context, in *Message) (*Message, error) { return in, get(ctx) }},
		streams{"Chat": func(s grpc.ServerStream) error {
			in := new(Message)
			if err := s.RecvMsg(in); err != nil {
				return err
			}
			if err := get(s.Context()); err != nil {
				return err
			}
			return s.SendMsg(in)
		}}, withHooks(process))
	page := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := get(r.Context()); err != nil {
			t.Error(err)
		}
		w.WriteHeader(http.StatusTeapot)
		io.WriteString(w, "short and stout")
	})
	url := HTTPServer(t, process, httphook.Handler(page, process)) // hooked twice, sampled once
	cc := dialWithoutHooks(t, front)

	check := func(what, root, parent string) {
		t.Helper()
		spans := c.Wait(3)
		c.mu.Lock()
		c.spans = nil
		c.mu.Unlock()
		var got []string
		for _, s := range spans {
			got = append(got, s.String())
		}
		want := []string{root, `front client "/shop.Service/Get"`, `back server "/shop.Service/Get"`}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("%s:\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
			return
		}
		if spans[0].Parent != parent || (parent != "" && spans[0].Trace != sampleTraceparent[3:35]) || spans[1].Parent != spans[0].ID || spans[2].Parent != spans[1].ID {
			t.Errorf("%s: not linked: %+v", what, spans)
		}
	}
	for _, traceparent := range []string{"", sampleTraceparent, "00-nonsense"} {
		ctx, parent := context.Background(), ""
		if traceparent != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, wire.TraceparentKey, traceparent)
		}
		if traceparent == sampleTraceparent {
			parent = sampleTraceparent[36:52]
		}
		var header, trailer metadata.MD
		if out, err := call(ctx, cc, "Page", []byte("x"), grpc.Header(&header), grpc.Trailer(&trailer)); err != nil || string(out) != "x" {
			t.Fatal(err)
		}
		if len(header[wire.GRPCKey])+len(trailer[wire.GRPCKey]) > 0 {
			t.Error("an unrequested history was sent")
		}
		check("unary", `front server "/shop.Service/Page"`, parent)
		s, err := open(ctx, cc, chatDesc)
		if err == nil {
			err = send(s, "x")
		}
		if out, err2 := recv(s); err != nil || err2 != nil || out != "x" {
			t.Fatal(err, err2)
		}
		s.CloseSend()
		if _, err := recv(s); err != io.EOF || len(s.Trailer()[wire.GRPCKey]) > 0 {
			t.Error(err, s.Trailer())
		}
		check("stream", `front server "/shop.Service/Chat"`, parent)
		resp, body, err := Get(context.Background(), http.DefaultClient, url+"/page/7", func(r *http.Request) {
			if traceparent != "" {
				r.Header.Set("Traceparent", traceparent)
			}
		})
		if err != nil || body != "short and stout" || resp.StatusCode != http.StatusTeapot || resp.ContentLength != int64(len(body)) {
			t.Fatal(body, resp, err)
		}
		for _, name := range []string{wire.HistoryHeader, wire.ReplyHeader, "Cache-Control", "Vary"} {
			if resp.Header.Get(name) != "" {
				t.Errorf("%s: %s", name, resp.Header.Get(name))
			}
		}
		check("HTTP", `front server "GET /page/{id}"`, parent)
	}
	// without a trace key no request is sampled
	keyless := Process(t, "front")
	keyless.Receiver = trust.NewReceiver(ParseSettings(t, "environment demo\nkey fault f1 "+FaultKey))
	keyless.Sampler = c.Sampler(1, false)
	if out, err := call(context.Background(), dialWithoutHooks(t, serve(t, methods{"Look": func(ctx context.Context, _ *Message) (*Message, error) {
		return &Message{Value: []byte(fmt.Sprint(scope.Current(ctx) != nil))}, nil
	}}, withHooks(keyless))), "Look", nil); err != nil || string(out) != "false" {
		t.Error(string(out), err)
	}
}
