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

	"faultloom.dev/go/message/hooks/faults"
	"faultloom.dev/go/message/scope"
	"faultloom.dev/go/message/wire"
)

// defaultReceiveLimit is grpc-go's own default for clients.
const defaultReceiveLimit = 4 << 20

// While a call is in progress, the hooks keep only this function and the one of unaryServer on the stack. A goroutine's
// initial stack is just large enough for an untraced chain of calls, and Go copies a stack when it grows.
func unaryClient(authority string) grpc.UnaryClientInterceptor {
	support := new(fieldSupport)
	scope.SetRequestTest(isRequestContext)
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		s, origin := scope.ForCall(ctx)
		if s == nil {
			if origin == scope.Lost {
				countLost(authority, method)
			}
			return invoke(ctx, method, req, reply, cc, opts...)
		}
		c, err := beginUnaryCall(ctx, s, origin, support, authority, method, req, reply, cc, opts)
		if err != nil {
			return err
		}
		if c == nil {
			return invoke(ctx, method, req, reply, cc, opts...)
		}
		return c.finish(invoke(c.ctx, method, c.outgoingMessage(req), c.replyTarget(), cc, c.options...))
	}
}

// countLost is a function of its own, so that its value is not on the stack of a call.
//
//go:noinline
func countLost(authority, method string) {
	scope.CountLost(scope.Call{Peer: authority, Name: method})
}

// isRequestContext reports whether a context belongs to a request that a gRPC server handles.
func isRequestContext(ctx context.Context) bool { return incomingMetadata(ctx) != nil }

// beginUnaryCall records a call and applies its fault, whose error it returns if the request is not to be sent. It
// returns nil without an error if the call is to be made as if there were no scope.
func beginUnaryCall(ctx context.Context, s *scope.Scope, origin scope.Origin, support *fieldSupport, authority, method string, req, reply any, cc *grpc.ClientConn, opts []grpc.CallOption) (*clientCall, error) {
	limits, known := clientLimits(cc, method, opts)
	call, acceptsField, ok := beginCall(s, origin, authority, method, limits.receive)
	if !ok {
		return nil, nil
	}
	c := &clientCall{ctx: ctx, scope: s, number: call.Number, id: call.ID, fault: call.Fault,
		fieldSupport: support, method: method, reply: clientReply{message: reply}}
	if call.Fault != nil {
		outcome, err := applyFault(ctx, s, &call, authority)
		if err != nil {
			return nil, err
		}
		c.reply.alterBy(outcome)
	}
	if !known {
		limits, acceptsField = acceptAfterConnecting(ctx, s, &call, cc, method, opts)
	}
	c.acceptsField = acceptsField
	if !acceptsField || limits.send < minFieldLimit || !c.placeInField(&call, req) {
		c.ctx = outgoingContext(ctx, s, &call)
	}
	// a copy: opts must not be changed
	c.options = append(append(c.inlineOptions[:0], opts...), grpc.TrailerCallOption{TrailerAddr: &c.trailer})
	return c, nil
}

// beginCall begins a call in the scope. acceptsField reports whether its replies may carry a field.
func beginCall(s *scope.Scope, origin scope.Origin, authority, method string, receiveLimit int) (call scope.OutgoingCall, acceptsField, ok bool) {
	c := scope.Call{Peer: s.Process().PeerName(authority), Name: method}
	if receiveLimit > 0 && s.Envelope().History {
		acceptsField = true
		c.Accept, c.ReceiveLimit = wire.AcceptField, uint64(receiveLimit)
	}
	if origin != scope.FromGoroutine {
		call, ok = s.BeginCall(s.Now(), c)
		return call, acceptsField, ok
	}
	if call, ok = s.BeginInheritedCall(s.Now(), c); !ok { // the scope has just finished
		countLost(authority, method)
	}
	return call, acceptsField, ok
}

// applyFault waits as long as the call's fault requires. If the request is not sent, it records that and returns what
// the caller gets as an error. Otherwise the outcome is what the fault does to the reply.
func applyFault(ctx context.Context, s *scope.Scope, call *scope.OutgoingCall, authority string) (faults.Outcome, error) {
	effect, err := faults.EffectAfterWait(ctx, s, faults.GRPC, call.Fault)
	if err != nil {
		st := status.FromContextError(err)
		s.RecordFailure(s.Now(), call.Number, scope.CallEnd{Status: uint64(st.Code())})
		return effect.Outcome, st.Err()
	}
	if effect.Sends {
		return effect.Outcome, nil
	}
	faults.RecordUnsent(s, call.Number, effect)
	return effect.Outcome, unsentError(effect, authority)
}

// unsentError returns what grpc-go's caller gets for a call that was not sent.
func unsentError(effect faults.Effect, authority string) error {
	code := codes.Code(effect.Status)
	switch effect.Outcome {
	case faults.Refused:
		return status.Error(code, `connection error: desc = "transport: Error while dialing: dial tcp `+authority+`: connect: connection refused"`)
	case faults.Reset:
		return status.Error(code, "error reading from server: read tcp "+authority+": read: connection reset by peer")
	case faults.Status:
		return status.Error(code, "faultloom: injected "+code.String())
	default:
		return status.Error(code, "context deadline exceeded")
	}
}

// Errors of replies that a fault has changed.
const (
	lostText    = "error reading from server: EOF"
	corruptText = "grpc: failed to unmarshal the received message: corrupted"
)

// outgoingContext returns the context to send a request with: its metadata has the envelope.
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

// clientCall is everything that one call needs, in one allocation.
type clientCall struct {
	ctx           context.Context // to send the request with
	scope         *scope.Scope
	number        uint64
	id            uint64
	fault         *wire.Fault // the fault that fired, or nil
	acceptsField  bool        // the reply may carry a field
	method        string
	fieldSupport  *fieldSupport
	methodState   *methodState // in fieldSupport, or nil
	request       clientRequest
	reply         clientReply
	trailer       metadata.MD
	options       []grpc.CallOption
	inlineOptions [3]grpc.CallOption
}

// replyTarget returns what grpc-go is to decode the reply into.
func (c *clientCall) replyTarget() any {
	if c.acceptsField {
		return &c.reply
	}
	return c.reply.message
}

// finish records how the call ended, applies its fault to the reply, and returns the caller's error.
func (c *clientCall) finish(err error) error {
	end := scope.CallEnd{History: c.reply.history}
	trailer := c.trailer[wire.GRPCKey]
	if end.History == nil && len(trailer) > 0 {
		end.History = []byte(trailer[len(trailer)-1])
	}
	result := faults.Result{Status: uint64(statusCode(err)), History: end.History != nil}
	result.Failed = err != nil && len(trailer) == 0 && isLocalError(c.ctx, err)
	if c.reply.altered && !result.Failed {
		result.Status = 0 // the reply was OK; an error is the library's about the altered message
	}
	c.updateFieldSupport(end.History, result.Failed)
	effect := faults.ReplyEffect(faults.GRPC, c.fault, result)
	switch {
	case effect.Outcome == faults.Reset:
		resetMessage(c.reply.message)
		err = status.Error(codes.Unavailable, lostText)
	case effect.Outcome == faults.Empty && !c.acceptsField: // else the codec has done it
		resetMessage(c.reply.message)
	case effect.Outcome == faults.Corrupt && !c.acceptsField:
		resetMessage(c.reply.message)
		err = status.Error(codes.Internal, corruptText)
	}
	end.Status, end.Gap = effect.RecordedStatus, effect.Gap
	if effect.RecordsFailure {
		c.scope.RecordFailure(c.scope.Now(), c.number, end)
	} else {
		c.scope.RecordReply(c.scope.Now(), c.number, end)
	}
	c.reply.free()
	return err
}

func resetMessage(message any) {
	if m, ok := message.(proto.Message); ok {
		proto.Reset(m)
	}
}

// messageLimits are the largest messages of a call or server, in bytes. Both are 0 if the codec is not ours: then
// nothing may be appended.
type messageLimits struct{ send, receive int }

// clientLimits returns the limits of a call. known is false if they depend on the channel's service config, which it
// gets when it connects for the first time: then the limits are 0.
func clientLimits(cc *grpc.ClientConn, method string, opts []grpc.CallOption) (l messageLimits, known bool) {
	if !codecIsActive() {
		return l, true
	}
	l = messageLimits{send: math.MaxInt, receive: defaultReceiveLimit}
	for _, o := range opts {
		switch o := o.(type) {
		case grpc.MaxRecvMsgSizeCallOption:
			l.receive = o.MaxRecvMsgSize
		case grpc.MaxSendMsgSizeCallOption:
			l.send = o.MaxSendMsgSize
		case grpc.ForceCodecCallOption, grpc.ForceCodecV2CallOption, grpc.CustomCodecCallOption:
			return messageLimits{}, true
		case grpc.ContentSubtypeCallOption:
			if o.ContentSubtype != protoName {
				return messageLimits{}, true
			}
		}
	}
	if state := cc.GetState(); state != connectivity.Ready && state != connectivity.TransientFailure {
		return messageLimits{}, false
	}
	config := cc.GetMethodConfig(method)
	if config.MaxRespSize != nil {
		l.receive = min(l.receive, *config.MaxRespSize)
	}
	if config.MaxReqSize != nil {
		l.send = min(l.send, *config.MaxReqSize)
	}
	return l, true
}

// acceptAfterConnecting waits until the channel of a call that has begun has its service config, and announces then
// that the call's reply may carry a field. It returns the limits, which are 0 if nothing was announced.
func acceptAfterConnecting(ctx context.Context, s *scope.Scope, call *scope.OutgoingCall, cc *grpc.ClientConn, method string, opts []grpc.CallOption) (l messageLimits, acceptsField bool) {
	if waitForConfig(ctx, cc) {
		l, _ = clientLimits(cc, method, opts)
	}
	if l.receive <= 0 || !s.Envelope().History || !s.AcceptLater(call, wire.AcceptField, uint64(l.receive)) {
		return messageLimits{}, false
	}
	return l, true
}

// connectWait bounds how long the hook waits for a channel to connect. The call would have to wait for that anyway.
const connectWait = 250 * time.Millisecond

// waitForConfig waits until a channel has its service config, which may lower the limits. A channel gets it from its
// resolver when it connects for the first time.
func waitForConfig(ctx context.Context, cc *grpc.ClientConn) bool {
	ctx, cancel := context.WithTimeout(ctx, connectWait)
	defer cancel()
	for state := cc.GetState(); state != connectivity.Ready && state != connectivity.TransientFailure; state = cc.GetState() {
		cc.Connect()
		if state == connectivity.Shutdown || !cc.WaitForStateChange(ctx, state) {
			return false
		}
	}
	return true
}

// isLocalError reports whether an error arose at the client instead of being the server's answer. grpc-go does not
// distinguish them. Without a history in the trailer, the code, the context and the texts of the transport decide.
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
