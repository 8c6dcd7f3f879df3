package suite

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	faultloom "faultloom.dev/go"
	"faultloom.dev/go/message/hooks/httphook"
	"faultloom.dev/go/message/wire"
)

// Hop is the instrumentation of a service without the SDK.
type Hop struct {
	Server    []grpc.ServerOption
	Dial      []grpc.DialOption
	Handler   func(http.Handler) http.Handler
	Transport func(http.RoundTripper) http.RoundTripper
}

// RunBridge sends requests through such a hop: loadgen → hop → back → leaf, with gRPC and HTTP on either side of the
// hop. The hop is a gap. The services after it execute the plan and export their histories.
func RunBridge(t *testing.T, hop Hop) {
	for _, protocols := range []string{"grpc grpc", "grpc http", "http grpc", "http http"} {
		t.Run(protocols, func(t *testing.T) {
			in, out, _ := strings.Cut(protocols, " ")
			c := NewCollector(t)
			callHop, address := hop.startServices(t, c, in, out)
			send := func(bridge bool, plan ...faultloom.Fault) (string, *wire.Segment, string) {
				ctx, r := start(t, faultloom.Options{Plan: plan, Bridge: bridge})
				text := callHop(ctx)
				trace := r.Trace()
				return text, finish(t, r), hexOf(trace[:])
			}
			broken := faultloom.Fault{Kind: wire.Status, Arg: 8, Selector: faultloom.Selector{Caller: "back", Call: "Leaf"}}
			// without the permission the envelope does not pass the hop
			if text, _, _ := send(false, broken); text != "reply of leaf" {
				t.Errorf("without a bridge: %q", text)
			}
			for i, plan := range [][]faultloom.Fault{nil, {broken}, nil} {
				want := "reply of leaf"
				if plan != nil {
					want = "leaf: ResourceExhausted"
				}
				text, h, trace := send(true, plan...)
				if text != want {
					t.Errorf("%q, want %q", text, want)
				}
				if e := h.Events[1]; len(h.Events) != 3 || !e.Gap || e.Child != nil || h.Events[0].Peer != address {
					t.Errorf("the hop should be a gap:\n%s", FormatHistory(h))
				}
				spans := c.Wait(2 + i*3)
				var of []string
				for _, s := range spans {
					if s.Trace == trace {
						of = append(of, s.String())
						if s.Service == "back" && s.Kind == 2 && s.Parent == "" {
							t.Errorf("nothing links %+v to the hop", s)
						}
					}
				}
				got := strings.Join(of, "\n")
				server, client := `back server "/shop.Service/Back"`, `back client "/shop.Service/Leaf"`
				if out == "http" {
					server = `back server "GET /back"`
				}
				wantSpans := server + "\n" + client + "\n" + `leaf server "/shop.Service/Leaf"`
				if plan != nil {
					wantSpans = server + "\n" + client + " error fault=0"
				}
				if got != wantSpans {
					t.Errorf("spans\n%s\nwant\n%s", got, wantSpans)
				}
			}
		})
	}
}

func hexOf(b []byte) string {
	const digits = "0123456789abcdef"
	var out strings.Builder
	for _, c := range b {
		out.WriteByte(digits[c>>4])
		out.WriteByte(digits[c&15])
	}
	return out.String()
}

// startServices starts the three services. It returns a function that calls the hop, and the hop's address.
func (hop Hop) startServices(t *testing.T, c *Collector, in, out string) (callHop func(context.Context) string, address string) {
	leaf := dial(t, serve(t, methods{"Leaf": func(context.Context, *Message) (*Message, error) {
		return &Message{Value: []byte("reply of leaf")}, nil
	}}, withHooks(Process(t, "leaf"))))
	answer := func(ctx context.Context) string {
		text, err := call(ctx, leaf, "Leaf", nil)
		if err != nil {
			return "leaf: " + status.Code(err).String()
		}
		return string(text)
	}
	process := Process(t, "back")
	process.Sampler = c.Sampler(0, false)

	var next func(context.Context) string // of the hop
	if out == "grpc" {
		back := serve(t, methods{"Back": func(ctx context.Context, _ *Message) (*Message, error) {
			return &Message{Value: []byte(answer(ctx))}, nil
		}}, withHooks(process))
		cc := dialWithoutHooks(t, back, hop.Dial...)
		next = func(ctx context.Context) string {
			text, err := call(ctx, cc, "Back", nil)
			return string(text) + errorText(err)
		}
	} else {
		back := HTTPServer(t, process, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, answer(r.Context())) }))
		client := &http.Client{Transport: hop.Transport(http.DefaultTransport)}
		next = func(ctx context.Context) string {
			_, text, err := Get(ctx, client, back+"/back")
			return text + errorText(err)
		}
	}
	if in == "grpc" {
		address = serve(t, methods{"Hop": func(ctx context.Context, _ *Message) (*Message, error) {
			return &Message{Value: []byte(next(ctx))}, nil
		}}, hop.Server...)
		cc := dial(t, address)
		return func(ctx context.Context) string {
			text, err := call(ctx, cc, "Hop", nil)
			return string(text) + errorText(err)
		}, address
	}
	url := HTTPServer(t, nil, hop.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, next(r.Context())) })))
	client := &http.Client{Transport: httphook.Transport(nil)}
	return func(ctx context.Context) string {
		_, text, err := Get(ctx, client, url+"/hop")
		return text + errorText(err)
	}, strings.TrimPrefix(url, "http://")
}

func errorText(err error) string {
	if err != nil {
		return " " + err.Error()
	}
	return ""
}

// RunWithOpenTelemetry installs the SDK's hooks and OpenTelemetry's in the same services: histories are complete,
// faults fire, and programs receive their own messages.
func RunWithOpenTelemetry(t *testing.T, hop Hop) {
	m := newMarket(t, hop.Server...)
	cc := dial(t, m.address, hop.Dial...)
	for _, desc := range []*grpc.StreamDesc{listDesc, sumDesc, chatDesc} {
		for _, plan := range [][]faultloom.Fault{nil, {{Kind: wire.Unavailable, Selector: faultloom.Selector{Callee: "back"}}}, nil} {
			ctx, r := start(t, faultloom.Options{Plan: plan, Bridge: true})
			out, err := read(ctx, cc, desc, "a b")
			if plan != nil {
				if status.Code(err) != codes.Unavailable {
					t.Errorf("%s: %q %v", desc.StreamName, out, err)
				}
				continue
			}
			if err != nil || out != "got a,got b" {
				t.Errorf("%s: %q %v", desc.StreamName, out, err)
			}
			expect(t, finish(t, r), m.lines(desc.StreamName, "reply 0", "answer 0", 0, 0)...)
		}
	}
	page := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hi") })
	for name, h := range map[string]http.Handler{
		"ours outside":   httphook.Handler(hop.Handler(page), Process(t, "front")),
		"theirs outside": hop.Handler(httphook.Handler(page, Process(t, "front"))),
	} {
		url := HTTPServer(t, nil, h)
		for client, rt := range map[string]http.RoundTripper{
			"ours outside":   httphook.Transport(hop.Transport(http.DefaultTransport)),
			"theirs outside": hop.Transport(httphook.Transport(nil)),
		} {
			ctx, r := start(t, faultloom.Options{Bridge: true})
			if _, body, err := Get(ctx, &http.Client{Transport: rt}, url+"/page"); err != nil || body != "hi" {
				t.Errorf("%s, client %s: %q %v", name, client, body, err)
			}
			expect(t, finish(t, r), `loadgen ""`, "  1 send GET /page to "+strings.TrimPrefix(url, "http://"), "  1 reply 200",
				`    front "GET /page"`, "      answer 200", "  answer 0")
		}
	}
}
