package grpchook

import (
	"context"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"faultloom.dev/go/message/scope"
	"faultloom.dev/go/message/wire"
)

func streamClient(authority string) grpc.StreamClientInterceptor {
	return func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		s := scope.Current(ctx)
		if s == nil {
			return streamer(ctx, desc, cc, method, opts...)
		}
		call, field, ok := beginCall(s, authority, method, clientLimits(ctx, cc, method, opts).receive)
		if !ok {
			return streamer(ctx, desc, cc, method, opts...)
		}
		c := &clientStream{scope: s, number: call.Number, acceptsField: field, singleReply: !desc.ServerStreams}
		if call.Fault != nil {
			if over, err := before(ctx, s, &call, authority); over {
				return nil, err
			}
			c.kind = call.Fault.Kind
		}
		if c.kind == wire.EmptyReply || c.kind == wire.CorruptReply {
			c.reply.alter = c.kind
		}
		c.ctx, c.cancel = ctx, func() {}
		out := outgoingContext(ctx, s, &call)
		if c.kind == wire.LostReply || c.kind == wire.CorruptReply { // such a stream is ended from here
			out, c.cancel = context.WithCancel(out)
		}
		under, err := streamer(out, desc, cc, method, opts...)
		if err != nil {
			c.cancel()
			s.RecordFailure(s.Now(), call.Number, scope.CallEnd{Status: uint64(statusCode(err)), Gap: true})
			return nil, err
		}
		s.OpenStream(call.Number)
		c.ClientStream = under
		c.stopWatch = context.AfterFunc(ctx, func() { // the program leaves the stream, or its time is over
			s.RecordFailure(s.Now(), call.Number, scope.CallEnd{Status: uint64(statusCode(ctx.Err()))})
		})
		return c, nil
	}
}

// clientStream is a stream whose history comes in pieces. Its end is recorded when the program has seen it, when its
// context ends, or when the scope answers.
type clientStream struct {
	grpc.ClientStream
	ctx          context.Context // the program's
	cancel       context.CancelFunc
	stopWatch    func() bool
	scope        *scope.Scope
	number       uint64
	acceptsField bool // replies may bring a field
	singleReply  bool // the first reply is the last one
	kind         wire.Kind

	// Only for who receives, who is one at a time.
	reply clientReply
	lost  error // what a lost reply looks like from then on
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
	over := err != nil || c.singleReply
	told := false // the trailer brought a history: the callee has answered
	if over {
		if v := c.Trailer()[wire.GRPCKey]; len(v) > 0 {
			c.scope.AddPiece(c.number, []byte(v[len(v)-1]))
			told = true
		}
	}
	failed := err != nil && err != io.EOF && !told && isLocalError(c.ctx, err)
	switch {
	case failed:
		c.recordFailure(err)
	case c.kind == wire.LostReply:
		return c.loseReply(m)
	case over:
		c.recordReply(err)
	}
	return err
}

// alter plays an empty or corrupt reply where the codec is somebody else's.
func (c *clientStream) alterReply(m any) error {
	if c.kind != wire.EmptyReply && c.kind != wire.CorruptReply {
		return nil
	}
	if m, ok := m.(proto.Message); ok {
		proto.Reset(m)
	}
	if c.kind == wire.EmptyReply {
		return nil
	}
	c.reply.altered = true
	return status.Error(codes.Internal, "grpc: failed to unmarshal the received message: corrupted")
}

// lose ends the stream in place of its first reply message, or of its end.
func (c *clientStream) loseReply(m any) error {
	if m, ok := m.(proto.Message); ok {
		proto.Reset(m)
	}
	c.lost = status.Error(codes.Unavailable, "error reading from server: EOF")
	c.recordFailure(c.lost)
	c.cancel()
	return c.lost
}

func (c *clientStream) SendMsg(m any) error {
	err := c.ClientStream.SendMsg(m)
	if err != nil && err != io.EOF { // EOF: the program learns by receiving how it ended
		c.recordFailure(err)
	}
	return err
}

func (c *clientStream) Header() (metadata.MD, error) {
	md, err := c.ClientStream.Header()
	if err != nil {
		c.recordFailure(err)
	}
	return md, err
}

// end records that the callee has answered. A second end is none.
func (c *clientStream) recordReply(err error) {
	end := scope.CallEnd{}
	switch {
	case c.reply.altered: // the library's own complaint follows from the fault
		c.cancel()
	case err != io.EOF:
		end.Status = uint64(statusCode(err))
	}
	c.scope.RecordReply(c.scope.Now(), c.number, end)
	c.stopWatch()
}

// fail records that the stream broke.
func (c *clientStream) recordFailure(err error) {
	c.scope.RecordFailure(c.scope.Now(), c.number, scope.CallEnd{Status: uint64(statusCode(err))})
	c.stopWatch()
}
