package grpchook

import (
	"context"
	"math"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"faultloom.dev/go/message/scope"
	"faultloom.dev/go/message/wire"
)

// defaultReceiveLimit is grpc-go's own default for clients.
const defaultReceiveLimit = 4 << 20

// While a call is out, this function and the handler's are all that the hooks keep on the stack: it is just large enough for
// an untraced chain of calls, and Go copies a stack that it makes larger.
func unaryClient(authority string) grpc.UnaryClientInterceptor {
	known := new(fieldSupport)
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		s := scope.Current(ctx)
		if s == nil {
			return invoke(ctx, method, req, reply, cc, opts...)
		}
		c, err := beginUnaryCall(ctx, s, known, authority, method, req, reply, cc, opts)
		if err != nil {
			return err
		}
		if c == nil {
			return invoke(ctx, method, req, reply, cc, opts...)
		}
		return c.finish(invoke(c.ctx, method, c.outgoingMessage(req), c.replyTarget(), cc, c.options...))
	}
}

// begin records a call and plays the faults that act before its request is sent; the error is such a fault's. Nil without an
// error: the call is to be made as if there were no scope.
func beginUnaryCall(ctx context.Context, s *scope.Scope, known *fieldSupport, authority, method string, req, reply any, cc *grpc.ClientConn, opts []grpc.CallOption) (*clientCall, error) {
	limits := clientLimits(ctx, cc, method, opts)
	call, field, ok := beginCall(s, authority, method, limits.receive)
	if !ok {
		return nil, nil
	}
	c := &clientCall{ctx: ctx, scope: s, number: call.Number, id: call.ID, acceptsField: field, fieldSupport: known, method: method, reply: clientReply{message: reply}}
	if call.Fault != nil {
		if over, err := before(ctx, s, &call, authority); over {
			return nil, err
		}
		c.kind = call.Fault.Kind
		if c.kind == wire.EmptyReply || c.kind == wire.CorruptReply {
			c.reply.alter = c.kind
		}
	}
	if !field || limits.send < minFieldLimit || !c.placeInField(&call, req) {
		c.ctx = outgoingContext(ctx, s, &call)
	}
	c.options = append(append(c.inlineOptions[:0], opts...), grpc.TrailerCallOption{TrailerAddr: &c.trailer}) // opts belong to others
	return c, nil
}

// send decides about a call and records it. field tells that its replies may bring a field.
func beginCall(s *scope.Scope, authority, method string, receiveLimit int) (call scope.OutgoingCall, field, ok bool) {
	send := scope.Call{Peer: s.Process().PeerName(authority), Name: method}
	if receiveLimit > 0 && s.Envelope().History {
		field = true
		send.Accept, send.ReceiveLimit = wire.AcceptField, uint64(receiveLimit)
	}
	call, ok = s.BeginCall(s.Now(), send)
	return call, field, ok
}

// outgoing is the context to send a request with.
func outgoingContext(ctx context.Context, s *scope.Scope, call *scope.OutgoingCall) context.Context {
	if call.Envelope == "" {
		return ctx
	}
	if s.Envelope().Bridge {
		md, _ := metadata.FromOutgoingContext(ctx) // a copy
		if md == nil {
			md = metadata.MD{}
		}
		traceparent := ""
		if v := md[wire.TraceparentKey]; len(v) > 0 {
			traceparent = v[0]
		}
		traceparent, baggage := s.InjectBridge(call, traceparent, strings.Join(md[wire.BaggageKey], ","))
		md[wire.TraceparentKey] = []string{traceparent}
		if delete(md, wire.BaggageKey); baggage != "" {
			md[wire.BaggageKey] = []string{baggage}
		}
		ctx = metadata.NewOutgoingContext(ctx, md)
	}
	return metadata.AppendToOutgoingContext(ctx, wire.GRPCKey, call.Envelope)
}

// clientCall is everything one call needs, in one piece.
type clientCall struct {
	ctx           context.Context // to send the request with
	scope         *scope.Scope
	number        uint64
	id            uint64
	kind          wire.Kind // of the fault that fired, or 0
	acceptsField  bool      // its reply may bring a field
	method        string
	fieldSupport  *fieldSupport
	methodState   *methodState // among the known ones, or nil
	request       clientRequest
	reply         clientReply
	trailer       metadata.MD
	options       []grpc.CallOption
	inlineOptions [3]grpc.CallOption
}

// target is what the reply is to be read into.
func (c *clientCall) replyTarget() any {
	if c.acceptsField {
		return &c.reply
	}
	return c.reply.message
}

// end records how the call ended, plays the faults that act then, and returns what the caller is to see.
func (c *clientCall) finish(err error) error {
	s, kind, reply, wrapped := c.scope, c.kind, c.reply.message, &c.reply
	end := scope.CallEnd{Status: uint64(statusCode(err)), History: wrapped.history}
	told := c.trailer[wire.GRPCKey]
	if end.History == nil && len(told) > 0 {
		end.History = []byte(told[len(told)-1])
	}
	end.Gap = end.History == nil
	failed := err != nil && len(told) == 0 && isLocalError(c.ctx, err)
	c.updateFieldSupport(end.History, failed)
	switch {
	case failed: // no status was there to be lost or altered, though a message may have come
	case kind == wire.LostReply:
		end.Status, failed = uint64(codes.Unavailable), true
		if m, ok := reply.(proto.Message); ok {
			proto.Reset(m)
		}
		err = status.Error(codes.Unavailable, "error reading from server: EOF")
	case wrapped.altered:
		end.Status = 0 // what the callee answered; the library's own complaint follows from the fault
	case !c.acceptsField && err == nil && kind == wire.EmptyReply:
		if m, ok := reply.(proto.Message); ok {
			proto.Reset(m)
		}
	case !c.acceptsField && err == nil && kind == wire.CorruptReply:
		if m, ok := reply.(proto.Message); ok {
			proto.Reset(m)
		}
		err = status.Error(codes.Internal, "grpc: failed to unmarshal the received message: corrupted")
	}
	if failed {
		s.RecordFailure(s.Now(), c.number, end)
	} else {
		s.RecordReply(s.Now(), c.number, end)
	}
	wrapped.free()
	return err
}

// before plays the faults that act before the request is sent. over tells that it is not sent at all.
func before(ctx context.Context, s *scope.Scope, call *scope.OutgoingCall, authority string) (over bool, err error) {
	f := call.Fault
	fail := func(c codes.Code, text string) (bool, error) {
		s.RecordFailure(s.Now(), call.Number, scope.CallEnd{Status: uint64(c)})
		return true, status.Error(c, text)
	}
	switch f.Kind {
	case wire.Unavailable:
		return fail(codes.Unavailable, `connection error: desc = "transport: Error while dialing: dial tcp `+authority+`: connect: connection refused"`)
	case wire.Reset:
		return fail(codes.Unavailable, "error reading from server: read tcp "+authority+": read: connection reset by peer")
	case wire.Deadline:
		return fail(codes.DeadlineExceeded, "context deadline exceeded")
	case wire.Status:
		s.RecordReply(s.Now(), call.Number, scope.CallEnd{Status: f.Arg})
		c := codes.Unknown // what cannot be arrives as UNKNOWN
		if f.Arg > 0 && f.Arg <= uint64(codes.Unauthenticated) {
			c = codes.Code(f.Arg)
		}
		return true, status.Error(c, "faultloom: injected "+c.String())
	case wire.Hang:
		if err := s.WaitForFault(ctx, f); err != nil {
			st := status.FromContextError(err)
			return fail(st.Code(), st.Message())
		}
		return fail(codes.DeadlineExceeded, "context deadline exceeded")
	case wire.Delay:
		if err := s.WaitForFault(ctx, f); err != nil {
			st := status.FromContextError(err)
			return fail(st.Code(), st.Message())
		}
	}
	return false, nil
}

// limits are how large the messages of a call may be, in bytes. Both are 0 if its codec is not ours: then nothing may be appended.
type messageLimits struct{ send, receive int }

func clientLimits(ctx context.Context, cc *grpc.ClientConn, method string, opts []grpc.CallOption) messageLimits {
	if !codecIsActive() {
		return messageLimits{}
	}
	l := messageLimits{send: math.MaxInt, receive: defaultReceiveLimit}
	for _, o := range opts {
		switch o := o.(type) {
		case grpc.MaxRecvMsgSizeCallOption:
			l.receive = o.MaxRecvMsgSize
		case grpc.MaxSendMsgSizeCallOption:
			l.send = o.MaxSendMsgSize
		case grpc.ForceCodecCallOption, grpc.ForceCodecV2CallOption, grpc.CustomCodecCallOption:
			return messageLimits{}
		case grpc.ContentSubtypeCallOption:
			if o.ContentSubtype != protoName {
				return messageLimits{}
			}
		}
	}
	if !isConfigured(ctx, cc) {
		return messageLimits{}
	}
	config := cc.GetMethodConfig(method)
	if config.MaxRespSize != nil {
		l.receive = min(l.receive, *config.MaxRespSize)
	}
	if config.MaxReqSize != nil {
		l.send = min(l.send, *config.MaxReqSize)
	}
	return l
}

// coldWait is how long a call on a channel that has not connected yet may wait here for what it would wait for anyway.
const connectWait = 250 * time.Millisecond

// settled tells whether the channel's service config, which may lower the limit, has arrived. A channel asks its resolver
// when it connects for the first time.
func isConfigured(ctx context.Context, cc *grpc.ClientConn) bool {
	state := cc.GetState()
	if state == connectivity.Ready || state == connectivity.TransientFailure {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, connectWait)
	defer cancel()
	for cc.Connect(); state == connectivity.Idle || state == connectivity.Connecting; state = cc.GetState() {
		if !cc.WaitForStateChange(ctx, state) {
			return false
		}
	}
	return true
}

// local tells whether an error arose here instead of being the server's answer. grpc-go does not say; without a history in
// the trailer the code, the context and the texts of its transport decide.
func isLocalError(ctx context.Context, err error) bool {
	st := status.Convert(err)
	switch st.Code() {
	case codes.DeadlineExceeded, codes.Canceled:
		return ctx.Err() != nil
	case codes.Unavailable:
		for _, text := range transportTexts {
			if strings.Contains(st.Message(), text) {
				return true
			}
		}
	}
	return false
}

var transportTexts = [...]string{"connection error", "error reading from server", "transport", "closing", "resolver", "no children to pick from",
	"no SubConn", "draining", "keepalive", "EOF", "RST_STREAM", "connection reset", "connection refused", "grpc: the"}
