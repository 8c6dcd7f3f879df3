package suite

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	faultloom "faultloom.dev/go"
	"faultloom.dev/go/message/wire"
)

// jsonCodec is a codec of the program's.
type jsonCodec struct{}

func (jsonCodec) Name() string { return "json" }
func (jsonCodec) Marshal(v any) ([]byte, error) {
	if m, ok := v.(*Message); ok {
		return protojson.Marshal(m)
	}
	return json.Marshal(map[string]string{"error": "not the program's own type"})
}
func (jsonCodec) Unmarshal(b []byte, v any) error { return protojson.Unmarshal(b, v.(proto.Message)) }

func init() { encoding.RegisterCodec(jsonCodec{}) }

func foreignCodecs(t *testing.T) {
	cc := dial(t, serve(t, methods{"Echo": echo}, withHooks(Process(t, "server"))))
	forced := dial(t, serve(t, methods{"Echo": echo}, withHooks(Process(t, "server")), grpc.ForceServerCodec(jsonCodec{})))
	for name, f := range map[string]func(context.Context) ([]byte, error){
		"content subtype": func(ctx context.Context) ([]byte, error) {
			return call(ctx, cc, "Echo", []byte("hi"), grpc.CallContentSubtype("json"))
		},
		"forced by both": func(ctx context.Context) ([]byte, error) {
			return call(ctx, forced, "Echo", []byte("hi"), grpc.ForceCodec(jsonCodec{}))
		},
	} {
		ctx, r := start(t, faultloom.Options{})
		out, err := f(ctx)
		if err != nil || string(out) != "hi" {
			t.Errorf("%s: %q %v", name, out, err)
		}
		if h := finish(t, r); h.Events[1].Child == nil {
			t.Errorf("%s: %s", name, FormatHistory(h))
		}
	}
	// a codec that only the server forces still gets a message that it can encode
	ctx, r := start(t, faultloom.Options{})
	server := dial(t, serve(t, methods{"Echo": echo}, withHooks(Process(t, "server")), grpc.ForceServerCodec(plainProto{})))
	if out, err := call(ctx, server, "Echo", []byte("hi")); err != nil || string(out) != "hi" {
		t.Errorf("%q %v", out, err)
	}
	if h := finish(t, r); h.Events[1].Child == nil {
		t.Error(FormatHistory(h))
	}
}

type plainProto struct{}

func (plainProto) Name() string                    { return "proto" }
func (plainProto) Marshal(v any) ([]byte, error)   { return proto.Marshal(v.(proto.Message)) }
func (plainProto) Unmarshal(b []byte, v any) error { return proto.Unmarshal(b, v.(proto.Message)) }

func outerInterceptor(t *testing.T) {
	var ownType atomic.Bool
	cc := dial(t, serve(t, methods{"Echo": echo}, withHooks(Process(t, "server")),
		grpc.UnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			out, err := next(ctx, req)
			_, ok := out.(*Message)
			ownType.Store(ok)
			return out, err
		})))
	ctx, r := start(t, faultloom.Options{})
	if _, err := call(ctx, cc, "Echo", []byte("hi")); err != nil || !ownType.Load() {
		t.Error("the interceptor did not get the program's own type", err)
	}
	if h := finish(t, r); h.Events[1].Child == nil {
		t.Error(FormatHistory(h))
	}
}

func sharedReply(t *testing.T) {
	shared := &Message{Value: []byte(strings.Repeat("x", 500))}
	before := proto.Clone(shared)
	cc := dial(t, serve(t, methods{"Get": func(context.Context, *Message) (*Message, error) { return shared, nil }}, withHooks(Process(t, "server"))))
	var wg sync.WaitGroup
	for i := 0; i < 50; i++ {
		ctx, r := start(t, faultloom.Options{})
		wg.Add(1)
		go func() {
			defer wg.Done()
			if out, err := call(ctx, cc, "Get", nil); err != nil || len(out) != 500 {
				t.Error(err)
			}
			if e := finish(t, r).Events[1]; e.Child == nil {
				t.Error("no history")
			}
		}()
	}
	wg.Wait()
	if !proto.Equal(before, shared) || len(shared.ProtoReflect().GetUnknown()) > 0 {
		t.Error("the program's message was changed")
	}
}

func retry(t *testing.T) {
	var tries atomic.Int32
	w := &envelopeRecorder{}
	address := serve(t, methods{"Flaky": func(ctx context.Context, in *Message) (*Message, error) {
		if tries.Add(1) == 1 {
			return nil, status.Error(codes.Unavailable, "not yet")
		}
		return in, nil
	}}, grpc.StatsHandler(w), withHooks(Process(t, "server")))
	cc := dial(t, address, grpc.WithDefaultServiceConfig(`{"methodConfig":[{"name":[{"service":"shop.Service"}],
		"retryPolicy":{"maxAttempts":3,"initialBackoff":"0.01s","maxBackoff":"0.01s","backoffMultiplier":1,"retryableStatusCodes":["UNAVAILABLE"]}}]}`))
	for _, where := range []string{"metadata", "field"} {
		tries.Store(0)
		ctx, r := start(t, faultloom.Options{Plan: []faultloom.Fault{{Kind: wire.Reset, Selector: faultloom.Selector{Call: "Other"}}}})
		if _, err := call(ctx, cc, "Flaky", nil); err != nil || tries.Load() != 2 {
			t.Fatal(err, tries.Load())
		}
		if h := finish(t, r); h.Events[1].Child == nil {
			t.Error("the second attempt was taken for a replay:\n" + FormatHistory(h))
		}
		w.expect(t, "both attempts", where, where)
	}
}
