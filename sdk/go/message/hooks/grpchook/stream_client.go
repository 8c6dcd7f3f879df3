package grpchook

import (
	"context"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"faultloom.dev/go/message/hooks/faults"
	"faultloom.dev/go/message/scope"
	"faultloom.dev/go/message/wire"
)

func streamClient(authority string) grpc.StreamClientInterceptor {
	scope.SetRequestTest(isRequestContext)
	return func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		s, origin := scope.ForCall(ctx)
		if s == nil {
			if origin == scope.Lost {
				countLost(authority, method)
			}
			return streamer(ctx, desc, cc, method, opts...)
		}
		limits, known := clientLimits(cc, method, opts)
		call, acceptsField, ok := beginCall(s, origin, authority, method, limits.receive)
		if !ok {
			return streamer(ctx, desc, cc, method, opts...)
		}
		c := &clientStream{ctx: ctx, cancel: func() {}, scope: s, number: call.Number, fault: call.Fault, singleReply: !desc.ServerStreams}
		outcome := faults.Reply
		if call.Fault != nil {
			var err error
			if outcome, err = applyFault(ctx, s, &call, authority); err != nil {
				return nil, err
			}
			c.reply.alterBy(outcome)
		}
		if !known {
			_, acceptsField = acceptAfterConnecting(ctx, s, &call, cc, method, opts)
		}
		c.acceptsField = acceptsField
		out := outgoingContext(ctx, s, &call)
		if outcome == faults.Lost || outcome == faults.Corrupt { // the hook ends such a stream
			out, c.cancel = context.WithCancel(out)
		}
		inner, err := streamer(out, desc, cc, method, opts...)
		if err != nil {
			c.cancel()
			effect := faults.ReplyEffect(faults.GRPC, call.Fault, faults.Result{Failed: true, Status: uint64(statusCode(err))})
			s.RecordFailure(s.Now(), call.Number, scope.CallEnd{Status: effect.RecordedStatus, Gap: effect.Gap})
			return nil, err
		}
		s.OpenStream(call.Number)
		c.ClientStream = inner
		c.stopAfterFunc = context.AfterFunc(ctx, func() { // the program has canceled the stream, or its deadline has passed
			s.RecordFailure(s.Now(), call.Number, scope.CallEnd{Status: uint64(statusCode(ctx.Err()))})
		})
		return c, nil
	}
}

// clientStream is a stream whose history comes in pieces. Its end is recorded when the program has received it, when
// its context ends, or when the scope finishes.
type clientStream struct {
	grpc.ClientStream
	ctx           context.Context // the program's
	cancel        context.CancelFunc
	stopAfterFunc func() bool
	scope         *scope.Scope
	number        uint64
	fault         *wire.Fault // the fault that fired, or nil
	acceptsField  bool        // replies may carry a field
	singleReply   bool        // the first reply is the last one

	// Used by RecvMsg only, which is never called concurrently.
	reply clientReply
	lost  error // once a fault has dropped the reply: what every further RecvMsg returns
}

func (c *clientStream) RecvMsg(m any) error {
	if c.lost != nil {
		return c.lost
	}
	target := m
	if c.acceptsField {
		c.reply.message, c.reply.altered = m, false
		target = &c.reply
	}
	err := c.ClientStream.RecvMsg(target)
	if c.reply.history != nil {
		c.scope.AddPiece(c.number, c.reply.history)
	}
	c.reply.free()
	if !c.acceptsField && err == nil {
		err = c.alterReply(m)
	}
	ended := err != nil || c.singleReply
	hasHistory := false // in the trailer: then the status is the callee's
	if ended {
		if v := c.Trailer()[wire.GRPCKey]; len(v) > 0 {
			c.scope.AddPiece(c.number, []byte(v[len(v)-1]))
			hasHistory = true
		}
	}
	effect := faults.ReplyEffect(faults.GRPC, c.fault, c.result(err, hasHistory))
	switch {
	case effect.Outcome == faults.Failed:
		c.recordFailure(effect.RecordedStatus)
	case effect.Outcome == faults.Reset:
		return c.loseReply(m, effect.RecordedStatus)
	case ended:
		c.recordReply(effect.RecordedStatus)
	}
	return err
}

// result converts RecvMsg's error to the result of the call.
func (c *clientStream) result(err error, hasHistory bool) faults.Result {
	switch {
	case err == nil || err == io.EOF:
		return faults.Result{}
	case !hasHistory && isLocalError(c.ctx, err):
		return faults.Result{Failed: true, Status: uint64(statusCode(err))}
	case c.reply.altered: // the error is the library's about the altered message
		return faults.Result{}
	}
	return faults.Result{Status: uint64(statusCode(err))}
}

// alterReply empties or corrupts a reply message where the codec is not ours.
func (c *clientStream) alterReply(m any) error {
	switch c.reply.alter {
	case faults.Empty:
		resetMessage(m)
	case faults.Corrupt:
		resetMessage(m)
		c.reply.altered = true
		return status.Error(codes.Internal, corruptText)
	}
	return nil
}

// loseReply ends the stream in place of its first reply message, or of its end.
func (c *clientStream) loseReply(m any, code uint64) error {
	resetMessage(m)
	c.lost = status.Error(codes.Unavailable, lostText)
	c.recordFailure(code)
	c.cancel()
	return c.lost
}

func (c *clientStream) SendMsg(m any) error {
	err := c.ClientStream.SendMsg(m)
	if err != nil && err != io.EOF { // after EOF, RecvMsg returns how the stream ended
		c.recordFailure(uint64(statusCode(err)))
	}
	return err
}

func (c *clientStream) Header() (metadata.MD, error) {
	md, err := c.ClientStream.Header()
	if err != nil {
		c.recordFailure(uint64(statusCode(err)))
	}
	return md, err
}

// recordReply records the reply of the callee. The scope ignores a second end.
func (c *clientStream) recordReply(code uint64) {
	if c.reply.altered { // the library may have given the stream up because of the altered message
		c.cancel()
	}
	c.scope.RecordReply(c.scope.Now(), c.number, scope.CallEnd{Status: code})
	c.stopAfterFunc()
}

// recordFailure records that the stream broke.
func (c *clientStream) recordFailure(code uint64) {
	c.scope.RecordFailure(c.scope.Now(), c.number, scope.CallEnd{Status: code})
	c.stopAfterFunc()
}
