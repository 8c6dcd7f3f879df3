package grpchook

import (
	"context"
	"reflect"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec that is wrapped
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"faultloom.dev/go/message/hooks/faults"
	"faultloom.dev/go/message/scope"
	"faultloom.dev/go/message/wire"
)

const protoName = "proto"

// wrappingCodec handles the messages that the hooks have wrapped, and passes all others to the "proto" codec that was
// registered before it.
type wrappingCodec struct {
	encoding.CodecV2
	standard bool // the wrapped codec is grpc-go's own; then messages are marshaled here, with fewer allocations
}

func isStandardCodec(c encoding.CodecV2) bool {
	t := reflect.TypeOf(c)
	return t != nil && t.Kind() == reflect.Pointer && t.Elem().PkgPath() == "google.golang.org/grpc/encoding/proto"
}

var (
	registeredCodec *wrappingCodec
	registerCodec   = sync.OnceFunc(func() {
		before := encoding.GetCodecV2(protoName)
		registeredCodec = &wrappingCodec{before, isStandardCodec(before)}
		encoding.RegisterCodecV2(registeredCodec)
	})
	// codecIsActive reports whether the registered codec is still ours. Codecs may only be registered in init
	// functions, so one check at the first call is enough.
	codecIsActive = sync.OnceValue(func() bool {
		c, ok := encoding.GetCodecV2(protoName).(*wrappingCodec)
		return ok && c == registeredCodec
	})
)

// serverReply is a handler's reply and the history to append to it. It embeds the message, so that code between hook
// and codec still finds a proto.Message.
type serverReply struct {
	proto.Message
	ctx     context.Context
	history scope.PendingHistory
	limit   int // bytes of message and field together; above it the trailer is used
}

// clientReply is the caller's message to fill, and the history that the reply carries.
type clientReply struct {
	message any
	history []byte         // within buffer
	buffer  mem.Buffer     // to be freed, or nil
	alter   faults.Outcome // Empty or Corrupt: what a fault does to the message; else Reply
	altered bool           // a message was altered
}

// alterBy sets what the codec does to the message.
func (r *clientReply) alterBy(outcome faults.Outcome) {
	if outcome == faults.Empty || outcome == faults.Corrupt {
		r.alter = outcome
	}
}

// Unwrap returns the caller's message, for stats handlers that inspect replies.
func (r *clientReply) Unwrap() any { return r.message }

func (c *wrappingCodec) Marshal(v any) (mem.BufferSlice, error) {
	switch v := v.(type) {
	case *serverReply:
		return c.marshalReply(v)
	case *clientRequest:
		return c.marshalRequest(v)
	case *serverMessage:
		out, err := c.CodecV2.Marshal(v.Message)
		if err == nil {
			if field := v.stream.pieces.NextPiece(v.stream.limit - out.Len()); field != nil {
				out = append(out, mem.SliceBuffer(field))
			}
		}
		return out, err
	}
	return c.CodecV2.Marshal(v)
}

func (c *wrappingCodec) marshalReply(r *serverReply) (mem.BufferSlice, error) {
	if c.standard {
		if size := proto.Size(r.Message) + r.history.FieldLength(); size <= r.limit && mem.IsBelowBufferPoolingThreshold(size) {
			out, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(make([]byte, 0, size), r.Message)
			if err != nil {
				return nil, err
			}
			return mem.BufferSlice{mem.SliceBuffer(r.history.AppendField(out))}, nil
		}
	}
	out, err := c.CodecV2.Marshal(r.Message)
	if err != nil {
		return nil, err
	}
	if field := r.history.FieldLength(); out.Len()+field > r.limit {
		setTrailer(r.ctx, r.history.History())
	} else {
		out = append(out, mem.SliceBuffer(r.history.AppendField(make([]byte, 0, field))))
	}
	return out, nil
}

func (c *wrappingCodec) Unmarshal(data mem.BufferSlice, v any) error {
	if r, ok := v.(*clientReply); ok {
		return c.unmarshalReply(data, r)
	}
	if endsWithField(data) {
		pendingFields.Add(1)
	}
	return c.CodecV2.Unmarshal(data, v)
}

func (c *wrappingCodec) unmarshalReply(data mem.BufferSlice, r *clientReply) error {
	if data.Len() == 0 {
		return c.CodecV2.Unmarshal(data, r.message)
	}
	r.free() // the buffer of an earlier attempt
	r.buffer = data.MaterializeToBuffer(mem.DefaultBufferPool())
	message, history := wire.CutField(r.buffer.ReadOnlyData())
	r.history = history
	switch r.alter {
	case faults.Empty:
		r.altered = true
		return c.CodecV2.Unmarshal(nil, r.message)
	case faults.Corrupt:
		r.altered = true
		message = append([]byte(nil), message...)
		wire.CorruptBody(message)
	}
	if m, ok := r.message.(proto.Message); ok && c.standard {
		return proto.Unmarshal(message, m)
	}
	return c.CodecV2.Unmarshal(mem.BufferSlice{mem.SliceBuffer(message)}, r.message)
}

// free releases the reply's buffer, which also holds the history.
func (r *clientReply) free() {
	if r.buffer != nil {
		r.buffer.Free()
		r.buffer, r.history = nil, nil
	}
}

// setTrailer puts a history, truncated if necessary, into the trailer of the call that ctx answers.
func setTrailer(ctx context.Context, history []byte) {
	truncated, err := wire.TruncateHistory(history, wire.MaxTrailerBytes)
	if err == nil && truncated != nil {
		_ = grpc.SetTrailer(ctx, metadata.MD{wire.GRPCKey: {string(truncated)}}) // fails only if the call has ended
	}
}
