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
			scope.EnterUntraced()
			return handler(ctx, req)
		}
		defer call.scope.Leave(call.scope.Enter())
		reply, err := handler(&call.scoped, req)
		return call.finish(reply, err, info.FullMethod)
	}
}

// openUnaryScope begins the scope of the call that ctx answers, or returns nil if the call is not traced.
func openUnaryScope(ctx context.Context, p *scope.Process, req any) *serverCall {
	md := incomingMetadata(ctx)
	field, hasField := removeEnvelope(req)
	if candidate, sampled := mayHaveScope(p, md, hasField); candidate {
		call := new(serverCall)
		if openScope(ctx, p, &call.scope, md, field, hasField, sampled) {
			if hasField && serverLimits(ctx).receive > 0 { // our codec has counted the field
				pendingFields.Add(-1)
			}
			_, call.isProto = req.(proto.Message)
			call.scoped = scope.Context{Context: ctx, Scope: &call.scope}
			return call
		}
	}
	return nil
}

// mayHaveScope reports whether a request with this metadata, and with or without an envelope in a field, may get a
// scope, and whether the reason is that it was sampled.
func mayHaveScope(p *scope.Process, md metadata.MD, hasField bool) (candidate, sampled bool) {
	if hasField || len(md[wire.GRPCKey]) > 0 || wire.MayContainBridge(md[wire.BaggageKey]) {
		return true, false
	}
	sampled = p.Sampler.Sample()
	return sampled, sampled
}

// openScope begins the scope of a call in s, with the envelope in the field, if there is one, else with that in the
// metadata. It returns false if the call is not traced.
func openScope(ctx context.Context, p *scope.Process, s *scope.Scope, md metadata.MD, field string, hasField, sampled bool) bool {
	r := scope.IncomingRequest{Sampled: sampled, Envelope: field, HasEnvelope: hasField}
	switch values := md[wire.GRPCKey]; {
	case hasField: // the envelope in the metadata, if any, is an older one that the client forwarded
	case len(values) > 0:
		// a proxy forwards its own envelope before the one that its client hook adds
		r.Envelope, r.HasEnvelope = values[len(values)-1], true
	case scope.Current(ctx) != nil:
		return false // another hook has opened the scope
	}
	if !r.HasEnvelope || wire.CarriesPlan(r.Envelope) { // the replay check, which needs it, is for plans only
		r.Attempt = attemptNumber(md)
	}
	if values := md[wire.TraceparentKey]; len(values) > 0 {
		r.Traceparent = values[0]
	}
	if !r.HasEnvelope {
		r.Baggage = strings.Join(md[wire.BaggageKey], ",")
	}
	return p.OpenScope(s, r)
}

// serverCall is everything that serving one call needs, in one allocation.
type serverCall struct {
	scope   scope.Scope
	scoped  scope.Context
	isProto bool // the request is a protobuf message
	reply   serverReply
}

// finish ends the scope and returns the reply that grpc-go is to send.
func (call *serverCall) finish(reply any, err error, method string) (any, error) {
	s, ctx := &call.scope, call.scoped.Context
	env, status := s.Envelope(), uint64(statusCode(err))
	if !s.ReturnsHistory() {
		s.Finish(s.Now(), status, method) // an exported history has no caller's segment with the name of the call
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

// incomingMetadata returns the metadata of the call that ctx answers. Do not change it. grpc-go's own functions copy
// all of it, or compare every key without regard to case if they do not find one, which every request without an
// envelope would pay for. The keys are in lower case anyway, so the metadata is read from the context directly.
func incomingMetadata(ctx context.Context) metadata.MD {
	if incomingMetadataKey == nil {
		md, _ := metadata.FromIncomingContext(ctx)
		return md
	}
	md, _ := ctx.Value(incomingMetadataKey).(metadata.MD)
	return md
}

// incomingMetadataKey is the context key that grpc-go uses, or nil if its value is not simply the metadata.
var incomingMetadataKey = func() (key any) {
	metadata.FromIncomingContext(keyRecorder{context.Background(), &key})
	check := metadata.NewIncomingContext(context.Background(), metadata.MD{wire.GRPCKey: {""}})
	if md, ok := check.Value(key).(metadata.MD); !ok || len(md[wire.GRPCKey]) != 1 {
		return nil
	}
	return key
}()

// keyRecorder is a context that stores the key of the last lookup.
type keyRecorder struct {
	context.Context
	key *any
}

func (r keyRecorder) Value(key any) any {
	*r.key = key
	return nil
}

// statusCode returns the gRPC code of an error that a handler or a call has returned.
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

// serverLimits returns the message limits of the server that answers ctx. Both are 0 if foreign code would get a
// request with a field, or a wrapped reply.
func serverLimits(ctx context.Context) messageLimits {
	server, ok := serverWithOurCodec(ctx)
	if !ok {
		return messageLimits{}
	}
	list := recentServers.Load()
	if list != nil {
		for i := range *list {
			if (*list)[i].server == server {
				return (*list)[i].limits
			}
		}
	}
	l := messageLimits{}
	if isOutermost() {
		l = readServerLimits(server)
	}
	next := []recentServer{{server, l}}
	if list != nil {
		next = append(next, (*list)[:min(len(*list), 15)]...)
	}
	recentServers.Store(&next)
	return l
}

// recentServers caches the results of serverLimits for the last few servers, so that it does not keep servers alive for
// long.
var recentServers atomic.Pointer[[]recentServer]

type recentServer struct {
	server *grpc.Server
	limits messageLimits
}

// serverWithOurCodec returns the server of a call. ok is false if the call's content subtype selects another codec.
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

// readServerLimits reads a server's limits from its options. Both are 0 if an option forces a codec.
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

// isOutermost reports whether no interceptor set by grpc.UnaryInterceptor runs outside of the hook. Such an interceptor
// runs before all chained ones and may assert the reply's type. The name of the hook's caller shows this: the chain
// calls every interceptor except the outermost one from a closure in getChainUnaryHandler.
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
