package grpchook

import (
	"context"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	_ "unsafe" // for linkname

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"faultloom.dev/go/message/scope"
	"faultloom.dev/go/message/wire"
)

//go:linkname serverFromContext google.golang.org/grpc/internal.ServerFromContext
var serverFromContext any // func(context.Context) *grpc.Server

// See unaryClient about the stack.
func unaryServer(process func() *scope.Process) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		call := openUnaryScope(ctx, process(), req)
		if call == nil {
			return handler(ctx, req)
		}
		reply, err := handler(&call.scoped, req)
		return call.finish(reply, err, info.FullMethod)
	}
}

// answer begins the scope of the call that ctx answers, or returns nil: there is to be none.
func openUnaryScope(ctx context.Context, p *scope.Process, req any) *serverCall {
	md := incomingMetadata(ctx)
	field := cutEnvelope(req)
	if concerned, drawn := mayHaveScope(p, md, field); concerned {
		call := new(serverCall)
		if openScope(ctx, p, &call.scope, md, field, drawn) {
			if field != "" && serverLimits(ctx).receive > 0 { // it was our codec that has read it
				pendingFields.Add(-1)
			}
			_, call.isProto = req.(proto.Message)
			call.scoped = scope.Context{Context: ctx, Scope: &call.scope}
			return call
		}
	}
	return nil
}

// concerns tells whether a request with this metadata, and with this envelope in a field, may have a scope, and whether that is
// because it was drawn.
func mayHaveScope(p *scope.Process, md metadata.MD, field string) (concerned, drawn bool) {
	if field != "" || len(md[wire.GRPCKey]) > 0 || wire.MayContainBridge(md[wire.BaggageKey]) {
		return true, false
	}
	drawn = p.Sample()
	return drawn, drawn
}

// open begins in s the scope of a call with this metadata and, unless that is empty, this envelope in a field of its request,
// if it has one.
func openScope(ctx context.Context, p *scope.Process, s *scope.Scope, md metadata.MD, field string, drawn bool) bool {
	a := scope.IncomingRequest{Sampled: drawn, Envelope: field}
	switch values := md[wire.GRPCKey]; {
	case field != "": // and metadata is what a proxy forwarded
	case len(values) > 0:
		a.Envelope = values[len(values)-1] // a proxy that forwards metadata repeats its own envelope before the one its client hook adds
	case scope.Current(ctx) != nil:
		return false // another hook was here
	}
	if a.Envelope == "" || wire.CarriesPlan(a.Envelope) { // only replays of plans are looked for
		a.Attempt = attemptNumber(md)
	}
	if values := md[wire.TraceparentKey]; len(values) > 0 {
		a.Traceparent = values[0]
	}
	if a.Envelope == "" {
		a.Baggage = strings.Join(md[wire.BaggageKey], ",")
	}
	return p.OpenScope(s, a)
}

// serverCall is what serving one call needs, in one piece.
type serverCall struct {
	scope   scope.Scope
	scoped  scope.Context
	isProto bool // the request is a protobuf message
	reply   serverReply
}

// end records the answer and returns what grpc-go is to send.
func (call *serverCall) finish(reply any, err error, method string) (any, error) {
	s, ctx := &call.scope, call.scoped.Context
	env, status := s.Envelope(), uint64(statusCode(err))
	if !s.ReturnsHistory() {
		s.Finish(s.Now(), status, method) // what is exported has no caller that names it
		return reply, err
	}
	server := serverLimits(ctx)
	if call.isProto && server.receive >= minFieldLimit {
		s.SetTakesField()
	}
	if err == nil && env.Accept&wire.AcceptField != 0 && env.ReceiveLimit > 0 && server.send > 0 {
		if message, ok := reply.(proto.Message); ok {
			limit := min(server.send, int(min(env.ReceiveLimit, 1<<31-1)))
			call.reply = serverReply{Message: message, ctx: ctx, limit: limit, history: s.FinishLater(s.Now(), status)}
			return &call.reply, nil
		}
	}
	setTrailer(ctx, s.Finish(s.Now(), status, ""))
	return reply, err
}

// incoming returns the metadata of the call that ctx answers: do not change it. grpc-go's own functions copy all of it, or
// compare every key without regard to case when they do not find one, and every request without an envelope would pay
// for that; its keys are in lower case anyway. So the metadata is taken from where those functions take it.
func incomingMetadata(ctx context.Context) metadata.MD {
	if incomingMetadataKey == nil {
		md, _ := metadata.FromIncomingContext(ctx)
		return md
	}
	md, _ := ctx.Value(incomingMetadataKey).(metadata.MD)
	return md
}

// incomingKey is what grpc-go asks a context for, or nil if that is not simply the metadata.
var incomingMetadataKey = func() (key any) {
	metadata.FromIncomingContext(keyRecorder{context.Background(), &key})
	probe := metadata.NewIncomingContext(context.Background(), metadata.MD{wire.GRPCKey: {""}})
	if md, ok := probe.Value(key).(metadata.MD); !ok || len(md[wire.GRPCKey]) != 1 {
		return nil
	}
	return key
}()

// listener is a context that notes what it is asked for.
type keyRecorder struct {
	context.Context
	key *any
}

func (l keyRecorder) Value(key any) any {
	*l.key = key
	return nil
}

// code is what the server will answer for a handler's error.
func statusCode(err error) uint32 {
	if err == nil {
		return 0
	}
	if s, ok := status.FromError(err); ok {
		return uint32(s.Code())
	}
	return uint32(status.FromContextError(err).Code())
}

func attemptNumber(md metadata.MD) uint64 {
	values := md["grpc-previous-rpc-attempts"]
	if len(values) == 0 {
		return 0
	}
	n, _ := strconv.ParseUint(values[0], 10, 64)
	return n
}

// examine tells how large the messages of the server that answers ctx may be. Both limits are 0 if a request with a field, or a
// wrapped reply, would meet foreign eyes.
func serverLimits(ctx context.Context) messageLimits {
	server, ok := serverWithOurCodec(ctx)
	if !ok {
		return messageLimits{}
	}
	known := knownServers.Load()
	if known != nil {
		for i := range *known {
			if (*known)[i].server == server {
				return (*known)[i].limits
			}
		}
	}
	l := messageLimits{}
	if isOutermost() {
		l = readServerLimits(server)
	}
	list := []knownServer{{server, l}}
	if known != nil {
		list = append(list, (*known)[:min(len(*known), 15)]...)
	}
	knownServers.Store(&list)
	return l
}

// servers remembers examine's result for the last few servers, so that none is kept alive for long.
var knownServers atomic.Pointer[[]knownServer]

type knownServer struct {
	server *grpc.Server
	limits messageLimits
}

// protoServer returns the server of a call whose codec is ours, as far as the call itself decides that.
func serverWithOurCodec(ctx context.Context) (server *grpc.Server, ok bool) {
	if !codecIsActive() {
		return nil, false
	}
	stream := grpc.ServerTransportStreamFromContext(ctx)
	if sub, ok := stream.(interface{ ContentSubtype() string }); !ok || (sub.ContentSubtype() != "" && sub.ContentSubtype() != protoName) {
		return nil, false
	}
	if get, ok := serverFromContext.(func(context.Context) *grpc.Server); ok {
		server = get(ctx)
	}
	return server, server != nil
}

// serverLimits returns a server's own limits, or none if a codec was forced by option.
func readServerLimits(server *grpc.Server) messageLimits {
	opts := reflect.ValueOf(server).Elem().FieldByName("opts")
	if opts.Kind() != reflect.Struct {
		return messageLimits{}
	}
	codec, send, receive := opts.FieldByName("codec"), opts.FieldByName("maxSendMessageSize"), opts.FieldByName("maxReceiveMessageSize")
	if codec.Kind() != reflect.Interface || !codec.IsNil() || send.Kind() != reflect.Int || receive.Kind() != reflect.Int {
		return messageLimits{}
	}
	return messageLimits{send: int(send.Int()), receive: int(receive.Int())}
}

// outermost tells that no interceptor set by grpc.UnaryInterceptor stands outside of the hook; it runs before all
// chained ones and may assert the reply's type. It looks at who called the hook: the chain's closure for all but its
// first interceptor has a name of its own.
func isOutermost() bool {
	var pcs [16]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs[:])])
	for {
		f, more := frames.Next()
		if !strings.Contains(f.Function, "/grpchook.") {
			return !strings.Contains(f.Function, "getChainUnaryHandler")
		}
		if !more {
			return false
		}
	}
}
