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
		call := answer(ctx, process(), req)
		if call == nil {
			return handler(ctx, req)
		}
		reply, err := handler(&call.scoped, req)
		return call.end(reply, err, info.FullMethod)
	}
}

// answer begins the scope of the call that ctx answers, or returns nil: there is to be none.
func answer(ctx context.Context, p *scope.Process, req any) *serverCall {
	md := incoming(ctx)
	field := cutEnvelope(req)
	if concerned, drawn := concerns(p, md, field); concerned {
		call := new(serverCall)
		if open(ctx, p, &call.scope, md, field, drawn) {
			if field != "" && examine(ctx).receive > 0 { // it was our codec that has read it
				enclosed.Add(-1)
			}
			_, call.proto = req.(proto.Message)
			call.scoped = scope.Scoped{Context: ctx, Scope: &call.scope}
			return call
		}
	}
	return nil
}

// concerns tells whether a request with this metadata, and with this envelope in a field, may have a scope, and whether that is
// because it was drawn.
func concerns(p *scope.Process, md metadata.MD, field string) (concerned, drawn bool) {
	if field != "" || len(md[wire.GRPCKey]) > 0 || wire.MayBridge(md[wire.BaggageKey]) {
		return true, false
	}
	drawn = p.Draw()
	return drawn, drawn
}

// open begins in s the scope of a call with this metadata and, unless that is empty, this envelope in a field of its request,
// if it has one.
func open(ctx context.Context, p *scope.Process, s *scope.Scope, md metadata.MD, field string, drawn bool) bool {
	a := scope.Arrival{Drawn: drawn, Own: field}
	switch values := md[wire.GRPCKey]; {
	case field != "": // and metadata is what a proxy forwarded
	case len(values) > 0:
		a.Own = values[len(values)-1] // a proxy that forwards metadata repeats its own envelope before the one its client hook adds
	case scope.From(ctx) != nil:
		return false // another hook was here
	}
	if a.Own == "" || wire.CarriesPlan(a.Own) { // only replays of plans are looked for
		a.Attempt = attempt(md)
	}
	if values := md[wire.TraceparentKey]; len(values) > 0 {
		a.Traceparent = values[0]
	}
	if a.Own == "" {
		a.Baggage = strings.Join(md[wire.BaggageKey], ",")
	}
	return p.Open(s, a)
}

// serverCall is what serving one call needs, in one piece.
type serverCall struct {
	scope  scope.Scope
	scoped scope.Scoped
	proto  bool // the request is a protobuf message
	reply  serverReply
}

// end records the answer and returns what grpc-go is to send.
func (call *serverCall) end(reply any, err error, method string) (any, error) {
	s, ctx := &call.scope, call.scoped.Context
	env, status := s.Envelope(), uint64(code(err))
	if !s.Returns() {
		s.Finish(s.Now(), status, method) // what is exported has no caller that names it
		return reply, err
	}
	server := examine(ctx)
	if call.proto && server.receive >= leastLimit {
		s.TakesField()
	}
	if err == nil && env.Accept&wire.AcceptField != 0 && env.ReceiveLimit > 0 && server.send > 0 {
		if message, ok := reply.(proto.Message); ok {
			limit := min(server.send, int(min(env.ReceiveLimit, 1<<31-1)))
			call.reply = serverReply{Message: message, ctx: ctx, limit: limit, ended: s.FinishLater(s.Now(), status)}
			return &call.reply, nil
		}
	}
	setTrailer(ctx, s.Finish(s.Now(), status, ""))
	return reply, err
}

// incoming returns the metadata of the call that ctx answers: do not change it. grpc-go's own functions copy all of it, or
// compare every key without regard to case when they do not find one, and every request without an envelope would pay
// for that; its keys are in lower case anyway. So the metadata is taken from where those functions take it.
func incoming(ctx context.Context) metadata.MD {
	if incomingKey == nil {
		md, _ := metadata.FromIncomingContext(ctx)
		return md
	}
	md, _ := ctx.Value(incomingKey).(metadata.MD)
	return md
}

// incomingKey is what grpc-go asks a context for, or nil if that is not simply the metadata.
var incomingKey = func() (key any) {
	metadata.FromIncomingContext(listener{context.Background(), &key})
	probe := metadata.NewIncomingContext(context.Background(), metadata.MD{wire.GRPCKey: {""}})
	if md, ok := probe.Value(key).(metadata.MD); !ok || len(md[wire.GRPCKey]) != 1 {
		return nil
	}
	return key
}()

// listener is a context that notes what it is asked for.
type listener struct {
	context.Context
	asked *any
}

func (l listener) Value(key any) any {
	*l.asked = key
	return nil
}

// code is what the server will answer for a handler's error.
func code(err error) uint32 {
	if err == nil {
		return 0
	}
	if s, ok := status.FromError(err); ok {
		return uint32(s.Code())
	}
	return uint32(status.FromContextError(err).Code())
}

func attempt(md metadata.MD) uint64 {
	values := md["grpc-previous-rpc-attempts"]
	if len(values) == 0 {
		return 0
	}
	n, _ := strconv.ParseUint(values[0], 10, 64)
	return n
}

// examine tells how large the messages of the server that answers ctx may be. Both limits are 0 if a request with a field, or a
// wrapped reply, would meet foreign eyes.
func examine(ctx context.Context) limits {
	server, ok := protoServer(ctx)
	if !ok {
		return limits{}
	}
	known := servers.Load()
	if known != nil {
		for i := range *known {
			if (*known)[i].server == server {
				return (*known)[i].limits
			}
		}
	}
	l := limits{}
	if outermost() {
		l = serverLimits(server)
	}
	list := []examined{{server, l}}
	if known != nil {
		list = append(list, (*known)[:min(len(*known), 15)]...)
	}
	servers.Store(&list)
	return l
}

// servers remembers examine's result for the last few servers, so that none is kept alive for long.
var servers atomic.Pointer[[]examined]

type examined struct {
	server *grpc.Server
	limits limits
}

// protoServer returns the server of a call whose codec is ours, as far as the call itself decides that.
func protoServer(ctx context.Context) (server *grpc.Server, ok bool) {
	if !active() {
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
func serverLimits(server *grpc.Server) limits {
	opts := reflect.ValueOf(server).Elem().FieldByName("opts")
	if opts.Kind() != reflect.Struct {
		return limits{}
	}
	codec, send, receive := opts.FieldByName("codec"), opts.FieldByName("maxSendMessageSize"), opts.FieldByName("maxReceiveMessageSize")
	if codec.Kind() != reflect.Interface || !codec.IsNil() || send.Kind() != reflect.Int || receive.Kind() != reflect.Int {
		return limits{}
	}
	return limits{send: int(send.Int()), receive: int(receive.Int())}
}

// outermost tells that no interceptor set by grpc.UnaryInterceptor stands outside of the hook; it runs before all
// chained ones and may assert the reply's type. It looks at who called the hook: the chain's closure for all but its
// first interceptor has a name of its own.
func outermost() bool {
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
