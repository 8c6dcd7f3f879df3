package suite

import (
	"context"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"

	faultloom "faultloom.dev/go"
)

// Variants of BenchmarkChain.
const (
	NoHooks  = iota // no hooks
	Untraced        // hooks and keys, requests without an envelope
	Traced          // requests with an envelope, whose history is returned
)

// BenchmarkChain measures one request through three services, A→B→C, all in this process.
func BenchmarkChain(b *testing.B, variant int) {
	hooks, traced := variant != NoHooks, variant == Traced
	server := func(name string) []grpc.ServerOption {
		if !hooks {
			return nil
		}
		return []grpc.ServerOption{withHooks(Process(b, name))}
	}
	connect := dialWithoutHooks
	if hooks {
		connect = dial
	}
	forward := func(next *grpc.ClientConn) methods {
		return methods{"Get": func(ctx context.Context, in *Message) (*Message, error) {
			out := new(Message)
			return out, next.Invoke(ctx, "/shop.Service/Get", in, out)
		}}
	}
	c := connect(b, serve(b, methods{"Get": echo}, server("c")...))
	mid := connect(b, serve(b, forward(c), server("b")...))
	a := connect(b, serve(b, forward(mid), server("a")...))
	settings := ParseSettings(b, Settings)
	var gaps atomic.Int64
	b.ReportAllocs()
	b.SetParallelism(16)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			ctx := context.Background()
			var r *faultloom.Request
			if traced {
				ctx, r, _ = faultloom.Start(ctx, faultloom.Options{Trust: settings})
			}
			if _, err := call(ctx, a, "Get", []byte("0123456789012345678901234567890123456789")); err != nil {
				b.Error(err)
				return
			}
			if traced && len(r.Finish()) < 100 {
				gaps.Add(1)
			}
		}
	})
	if gaps.Load() > 0 {
		b.Errorf("%d histories are not complete", gaps.Load())
	}
}
