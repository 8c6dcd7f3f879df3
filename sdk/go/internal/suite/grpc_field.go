package suite

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	faultloom "faultloom.dev/go"
	"faultloom.dev/go/message/wire"
)

// envelopeRecorder records the carrier of the envelope of each request that reaches a server, before any interceptor
// runs.
type envelopeRecorder struct {
	mu       sync.Mutex
	carriers []string
}

type inMetadataKey struct{}

func (*envelopeRecorder) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context {
	return context.WithValue(ctx, inMetadataKey{}, new(bool))
}

func (w *envelopeRecorder) HandleRPC(ctx context.Context, s stats.RPCStats) {
	inMetadata := ctx.Value(inMetadataKey{}).(*bool)
	switch s := s.(type) {
	case *stats.InHeader:
		*inMetadata = len(s.Header[wire.GRPCKey]) > 0
	case *stats.InPayload:
		_, envelope := wire.CutField(s.Payload.(proto.Message).ProtoReflect().GetUnknown())
		carrier := map[[2]bool]string{{true, true}: "both", {true, false}: "metadata", {false, true}: "field", {false, false}: "none"}[[2]bool{*inMetadata, envelope != nil}]
		w.mu.Lock()
		w.carriers = append(w.carriers, carrier)
		w.mu.Unlock()
	}
}

func (*envelopeRecorder) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context {
	return ctx
}
func (*envelopeRecorder) HandleConn(context.Context, stats.ConnStats) {}

// expect compares what was recorded since the last call.
func (w *envelopeRecorder) expect(t testing.TB, about string, want ...string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Equal(w.carriers, want) {
		t.Errorf("%s: envelopes were in %v, not in %v", about, w.carriers, want)
	}
	w.carriers = nil
}

// echoClean returns its request, or an error if the request has unknown fields.
func echoClean(_ context.Context, in *Message) (*Message, error) {
	if len(in.ProtoReflect().GetUnknown()) > 0 {
		return nil, status.Error(codes.DataLoss, "unknown bytes reached the program")
	}
	return &Message{Value: in.Value}, nil
}

// callTraced makes one call within a new traced request and checks its history.
func callTraced(t testing.TB, cc *grpc.ClientConn, in string, opts ...grpc.CallOption) {
	t.Helper()
	ctx, r := start(t, faultloom.Options{})
	if out, err := call(ctx, cc, "Get", []byte(in), opts...); err != nil || string(out) != in {
		t.Error(err)
	}
	if h := finish(t, r); h.Events[1].Child == nil {
		t.Error(FormatHistory(h))
	}
}

func fields(t *testing.T) {
	w := &envelopeRecorder{}
	address := serve(t, methods{"Get": echoClean, "Other": echoClean}, grpc.StatsHandler(w), withHooks(Process(t, "server")))
	cc, other := dial(t, address), dial(t, address)
	for range 3 {
		callTraced(t, cc, "a")
	}
	w.expect(t, "once the callee has announced it", "metadata", "field", "field")
	callTraced(t, other, "a")
	w.expect(t, "another channel", "metadata")
	ctx, _ := start(t, faultloom.Options{})
	if _, err := call(ctx, cc, "Other", nil); err != nil {
		t.Error(err)
	}
	w.expect(t, "another method", "metadata")
	callTraced(t, cc, "")
	w.expect(t, "an empty message", "field")
	callTraced(t, cc, strings.Repeat("x", 2000), grpc.UseCompressor(gzip.Name))
	w.expect(t, "a compressed message", "field")
	callTraced(t, cc, strings.Repeat("x", 60_000))
	w.expect(t, "a large message", "field")
	callTraced(t, cc, strings.Repeat("x", 65_536))
	w.expect(t, "a message beyond 65,536 bytes", "metadata")
	callTraced(t, cc, "a", grpc.MaxCallSendMsgSize(1000))
	w.expect(t, "a channel that sends little", "metadata")
	ctx, r := start(t, faultloom.Options{Bridge: true})
	if _, err := call(ctx, cc, "Get", nil); err != nil {
		t.Error(err)
	}
	if h := finish(t, r); h.Events[1].Child == nil {
		t.Error(FormatHistory(h))
	}
	w.expect(t, "a bridged envelope", "metadata")
	if _, err := call(context.Background(), cc, "Get", nil); err != nil {
		t.Error(err)
	}
	w.expect(t, "no scope", "none")
	callTraced(t, cc, "a")
	w.expect(t, "the method still uses fields", "field")
}

func fieldsNotAnnounced(t *testing.T) {
	outer := grpc.UnaryInterceptor(func(ctx context.Context, in any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		return next(ctx, in)
	})
	for about, opts := range map[string][]grpc.ServerOption{
		"a small receive limit": {grpc.MaxRecvMsgSize(1000), withHooks(Process(t, "server"))},
		"an outer interceptor":  {outer, withHooks(Process(t, "server"))},
		"a foreign codec":       {grpc.ForceServerCodec(plainProto{}), withHooks(Process(t, "server"))},
	} {
		w := &envelopeRecorder{}
		cc := dial(t, serve(t, methods{"Get": echoClean}, append(opts, grpc.StatsHandler(w))...))
		callTraced(t, cc, "a")
		callTraced(t, cc, "a")
		w.expect(t, about, "metadata", "metadata")
	}
	w := &envelopeRecorder{}
	cc := dial(t, serve(t, methods{"Get": echoClean}, grpc.StatsHandler(w)))
	for range 2 {
		ctx, _ := start(t, faultloom.Options{})
		if _, err := call(ctx, cc, "Get", nil); err != nil {
			t.Error(err)
		}
	}
	w.expect(t, "a server without an SDK", "metadata", "metadata")
}

// emptyHistory returns the history of a service that has made no calls, with or without the announcement that it takes
// fields.
func emptyHistory(t testing.TB, envelope string, takesField bool) []byte {
	var e wire.Envelope
	o, err := wire.DecodeEnvelope(envelope, &e)
	if err == nil {
		err = o.DecodeVerified(&e)
	}
	if err != nil {
		t.Error(err)
	}
	var flags byte
	if takesField {
		flags = wire.SegmentTakesField
	}
	return append(wire.AppendPrefix(wire.AppendHead(nil, wire.Version, e.Call), flags, "server", "", 1), wire.SendResponse, 0, 0)
}

func fieldsForgotten(t *testing.T) {
	w := &envelopeRecorder{}
	// what the server does, one per call: "takes" (a history with the announcement), "silent" (no history), "plain" (a
	// history without the announcement), "other" (another call's history), "error" or "waits"
	var actions []string
	arrived := make(chan struct{})
	address := serve(t, methods{"Get": func(ctx context.Context, in *Message) (*Message, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		_, field := wire.CutField(in.ProtoReflect().GetUnknown())
		envelope := string(field)
		if field == nil {
			envelope = md[wire.GRPCKey][0]
		}
		action := actions[0]
		actions = actions[1:]
		out := &Message{Value: in.Value}
		switch action {
		case "takes", "plain":
			out.ProtoReflect().SetUnknown(wire.AppendField(nil, emptyHistory(t, envelope, action == "takes")))
		case "other":
			history := emptyHistory(t, envelope, true)
			history[1] ^= 1
			out.ProtoReflect().SetUnknown(wire.AppendField(nil, history))
		case "waits":
			close(arrived)
			<-ctx.Done()
		case "error":
			return nil, status.Error(codes.NotFound, "no such thing")
		}
		return out, nil
	}}, grpc.StatsHandler(w))
	run := func(cc *grpc.ClientConn, script ...string) {
		t.Helper()
		actions = script
		for range script {
			ctx, _ := start(t, faultloom.Options{})
			ctx, cancel := context.WithCancel(ctx)
			if actions[0] == "waits" {
				go func() { <-arrived; cancel() }()
			}
			call(ctx, cc, "Get", nil)
			cancel()
		}
	}
	run(dial(t, address), "takes", "silent", "takes", "takes")
	w.expect(t, "a reply without a history: never a field again", "metadata", "field", "metadata", "metadata")
	run(dial(t, address), "takes", "error", "takes", "takes")
	w.expect(t, "an error without a history: never a field again", "metadata", "field", "metadata", "metadata")
	run(dial(t, address), "other", "takes", "other", "takes")
	w.expect(t, "another call's history has no effect", "metadata", "metadata", "field", "metadata")
	run(dial(t, address), "takes", "plain", "takes", "takes")
	w.expect(t, "a history without the announcement", "metadata", "field", "metadata", "field")
	run(dial(t, address), "takes", "waits", "silent", "takes", "takes")
	w.expect(t, "a canceled call has no effect", "metadata", "field", "metadata", "metadata", "field")
}

func fieldsRefused(t *testing.T) {
	p := Process(t, "server")
	address := serve(t, methods{"Get": echoClean, "Own": func(_ context.Context, in *Message) (*Message, error) {
		return &Message{Value: in.ProtoReflect().GetUnknown()}, nil
	}}, withHooks(p))
	cc := dialWithoutHooks(t, address)
	send := func(method string, unknown []byte) []byte {
		t.Helper()
		in, out := &Message{}, new(Message)
		in.ProtoReflect().SetUnknown(unknown)
		if err := cc.Invoke(context.Background(), "/shop.Service/"+method, in, out); err != nil {
			t.Error(err)
		}
		return out.Value
	}
	forged := make([]byte, 80)
	forged[0] = wire.Version
	for _, envelope := range [][]byte{forged, {}, []byte("x"), make([]byte, 5000)} {
		send("Get", wire.AppendField(nil, envelope))
	}
	own := []byte("\xfa\x01\x03abc") // a field of a newer version of the program
	if got := send("Own", wire.AppendField(slices.Clone(own), forged)); !slices.Equal(got, own) {
		t.Errorf("the program's own unknown field arrived as %x", got)
	}
	if got := send("Own", own); !slices.Equal(got, own) {
		t.Errorf("the program's own unknown field arrived as %x", got)
	}
}

// A proxy forwards the metadata of its request unchanged, while its own envelope is in a field.
func fieldBeforeMetadata(t *testing.T) {
	w := &envelopeRecorder{}
	cc := dial(t, serve(t, methods{"Get": echoClean}, grpc.StatsHandler(w), withHooks(Process(t, "server"))))
	callTraced(t, cc, "a")
	ctx, r := start(t, faultloom.Options{})
	ctx = metadata.AppendToOutgoingContext(ctx, wire.GRPCKey, "another")
	if _, err := call(ctx, cc, "Get", nil); err != nil {
		t.Error(err)
	}
	if h := finish(t, r); h.Events[1].Child == nil {
		t.Error(FormatHistory(h))
	}
	w.expect(t, "the envelope in the field is used", "metadata", "both")
}
