package grpchook

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"faultloom.dev/go/message/scope"
	"faultloom.dev/go/message/trust"
)

// incomingContext returns a context like that of a request in a handler.
func incomingContext() context.Context {
	ctx := metadata.NewIncomingContext(context.Background(), metadata.MD{":authority": {"127.0.0.1:1"}, "content-type": {"application/grpc"}, "user-agent": {"grpc-go/1.85.0"}, "baggage": {"user=7"}})
	ctx, cancel := context.WithTimeout(ctx, time.Hour)
	context.AfterFunc(ctx, cancel)
	type key struct{ int }
	for i := 0; i < 4; i++ {
		ctx = context.WithValue(ctx, key{i}, i)
	}
	return ctx
}

func keys(t testing.TB) *scope.Process {
	s, err := trust.ParseSettings("environment demo\nkey trace t1 0000000000000000000000000000000000000000000000000000000000000001")
	if err != nil {
		t.Fatal(err)
	}
	return &scope.Process{Service: "front", Receiver: trust.NewReceiver(s)}
}

// The hooks must not allocate for calls that are not traced.
func TestUntracedCallsDoNotAllocate(t *testing.T) {
	server, client, ctx := hooksForUntraced(t)
	if n := testing.AllocsPerRun(100, func() { server(ctx) }); n != 0 {
		t.Errorf("server: %v allocations", n)
	}
	if n := testing.AllocsPerRun(100, func() { client(ctx) }); n != 0 {
		t.Errorf("client: %v allocations", n)
	}
}

func BenchmarkUntracedServer(b *testing.B) {
	server, _, ctx := hooksForUntraced(b)
	b.ReportAllocs()
	for i := 0; i < b.N; i++ {
		server(ctx)
	}
}

func BenchmarkUntracedClient(b *testing.B) {
	_, client, ctx := hooksForUntraced(b)
	b.ReportAllocs()
	for i := 0; i < b.N; i++ {
		client(ctx)
	}
}

func hooksForUntraced(t testing.TB) (server, client func(context.Context), ctx context.Context) {
	p := keys(t)
	s, c := unaryServer(func() *scope.Process { return p }), unaryClient("127.0.0.1:1")
	info := &grpc.UnaryServerInfo{FullMethod: "/a/b"}
	handler := func(context.Context, any) (any, error) { return nil, nil }
	invoke := func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return nil }
	return func(ctx context.Context) { s(ctx, nil, info, handler) },
		func(ctx context.Context) { c(ctx, "/a/b", nil, nil, nil, invoke) }, incomingContext()
}
