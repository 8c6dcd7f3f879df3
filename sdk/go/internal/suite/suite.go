// Package suite tests the behavior of the hooks with one version of grpc-go. The tests of this module run it with the
// lowest supported version, the nested module ../newest with the newest one. All services run in this process, each
// with its own scope.Process, over real connections on loopback.
package suite

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	faultloom "faultloom.dev/go"
	"faultloom.dev/go/message/hooks/grpchook"
	"faultloom.dev/go/message/scope"
	"faultloom.dev/go/message/trust"
	"faultloom.dev/go/message/wire"
)

// Keys for tests; not secret.
var (
	TraceKey = strings.Repeat("0a", 32)
	FaultKey = strings.Repeat("0b", 32)
	Settings = "environment demo\nkey trace t1 " + TraceKey + "\nkey fault f1 " + FaultKey + "\nfaults on\n"
)

// ParseSettings is trust.ParseSettings for valid texts.
func ParseSettings(t testing.TB, text string) *trust.Settings {
	t.Helper()
	s, err := trust.ParseSettings(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Process returns a service with the trust settings of Settings.
func Process(t testing.TB, service string) *scope.Process {
	return &scope.Process{Service: service, Peers: map[string]string{}, Receiver: trust.NewReceiver(ParseSettings(t, Settings))}
}

// TrustFile writes settings into a file and returns it with a function that replaces them.
func TrustFile(t testing.TB, text string) (path string, replace func(string)) {
	path = filepath.Join(t.TempDir(), "trust")
	replace = func(text string) {
		t.Helper()
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	replace(text)
	return path, replace
}

// Eventually waits for a condition, at most ten seconds.
func Eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never happened: %s", what)
		}
	}
}

// Message is the message type of the test services.
type Message = wrapperspb.BytesValue

type method func(ctx context.Context, in *Message) (*Message, error)

type methods map[string]method

type streams map[string]func(grpc.ServerStream) error

// serve starts a gRPC server with service shop.Service and returns its address.
func serve(t testing.TB, ms methods, opts ...grpc.ServerOption) string {
	t.Helper()
	return serveAll(t, ms, nil, opts...)
}

// serveAll is serve with streams.
func serveAll(t testing.TB, ms methods, ss streams, opts ...grpc.ServerOption) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all []grpc.ServerOption
	for _, o := range opts {
		if h, ok := o.(serverHooks); ok {
			all = append(all, h.options...)
		} else {
			all = append(all, o)
		}
	}
	server := grpc.NewServer(all...)
	desc := &grpc.ServiceDesc{ServiceName: "shop.Service", HandlerType: (*any)(nil)}
	for name, m := range ms {
		desc.Methods = append(desc.Methods, grpc.MethodDesc{MethodName: name,
			Handler: func(srv any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
				in := new(Message)
				if err := decode(in); err != nil {
					return nil, err
				}
				call := func(ctx context.Context, req any) (any, error) {
					out, err := m(ctx, req.(*Message))
					if err != nil {
						return nil, err
					}
					return out, nil
				}
				if interceptor == nil {
					return call(ctx, in)
				}
				return interceptor(ctx, in, &grpc.UnaryServerInfo{Server: srv, FullMethod: "/shop.Service/" + name}, call)
			}})
	}
	for name, f := range ss {
		desc.Streams = append(desc.Streams, grpc.StreamDesc{StreamName: name, ServerStreams: true, ClientStreams: true,
			Handler: func(_ any, s grpc.ServerStream) error { return f(s) }})
	}
	server.RegisterService(desc, struct{}{})
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	return listener.Addr().String()
}

// serverHooks stands for the options of a server with the SDK.
type serverHooks struct {
	grpc.EmptyServerOption
	options []grpc.ServerOption
}

func withHooks(p *scope.Process) grpc.ServerOption {
	return serverHooks{options: grpchook.ServerOptions(p)}
}

// dial connects with the client hooks as the innermost interceptors.
func dial(t testing.TB, address string, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	return dialWithoutHooks(t, address, append(opts, grpchook.DialOptions(address)...)...)
}

func dialWithoutHooks(t testing.TB, address string, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	cc, err := grpc.NewClient("passthrough:///"+address, append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cc.Close() })
	return cc
}

func call(ctx context.Context, cc *grpc.ClientConn, name string, in []byte, opts ...grpc.CallOption) ([]byte, error) {
	out := new(Message)
	err := cc.Invoke(ctx, "/shop.Service/"+name, &Message{Value: in}, out, opts...)
	if n := len(out.ProtoReflect().GetUnknown()); n > 0 {
		return nil, fmt.Errorf("%d unknown bytes reached the program", n)
	}
	return out.Value, err
}

// start starts a traced request as "loadgen".
func start(t testing.TB, o faultloom.Options) (context.Context, *faultloom.Request) {
	t.Helper()
	if o.Trust == nil {
		o.Trust = ParseSettings(t, Settings)
	}
	o.Service = "loadgen"
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	ctx, r, err := faultloom.Start(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	return ctx, r
}

// finish ends a request and decodes its history.
func finish(t testing.TB, r *faultloom.Request) *wire.Segment {
	t.Helper()
	h, err := r.FinishHistory()
	if err != nil {
		t.Fatal(err)
	}
	return h.Segment
}

// FormatHistory formats a history with one line per event, for comparison. It leaves out times.
func FormatHistory(s *wire.Segment) string {
	var out strings.Builder
	formatSegment(&out, s, "")
	return out.String()
}

func formatSegment(out *strings.Builder, s *wire.Segment, indent string) {
	fmt.Fprintf(out, "%s%s %q", indent, s.Service, s.Name)
	if s.Truncated {
		out.WriteString(" truncated")
	}
	if s.FaultsOff {
		out.WriteString(" faults-off")
	}
	out.WriteString("\n")
	for _, e := range s.Events {
		switch e.Kind {
		case wire.SendRequest:
			fmt.Fprintf(out, "%s  %d send %s to %s", indent, e.Call, e.Name, e.Peer)
			if e.Fault >= 0 {
				fmt.Fprintf(out, " fault %d", e.Fault)
			}
		case wire.RecvResponse:
			fmt.Fprintf(out, "%s  %d reply %d", indent, e.Call, e.Status)
		case wire.CallFailed:
			fmt.Fprintf(out, "%s  %d failed %d", indent, e.Call, e.Status)
		case wire.SendResponse:
			fmt.Fprintf(out, "%s  answer %d", indent, e.Status)
		}
		if e.Gap {
			out.WriteString(" gap")
		}
		out.WriteString("\n")
		if e.Child != nil {
			formatSegment(out, e.Child, indent+"    ")
		}
	}
}

// CountEvents returns how many events a history has, including the RECV_REQUEST of each segment.
func CountEvents(s *wire.Segment) int {
	n := 1 + len(s.Events)
	for _, e := range s.Events {
		if e.Child != nil {
			n += CountEvents(e.Child)
		}
	}
	return n
}

func expect(t testing.TB, s *wire.Segment, lines ...string) {
	t.Helper()
	if got, want := FormatHistory(s), strings.Join(lines, "\n")+"\n"; got != want {
		t.Errorf("history is\n%swant\n%s", got, want)
	}
}
