package grpchook

import (
	"maps"
	"sync"
	"sync/atomic"
	"unsafe"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"faultloom.dev/go/message/scope"
	"faultloom.dev/go/message/wire"
)

// Limits of envelopes in fields.
const (
	maxRequestBytes = 64 << 10 // serialized size of a message that may get one
	minFieldLimit   = 1 << 20  // bytes that a server must receive and a channel must send
	maxMethods      = 1024     // per channel; further methods use metadata
)

// Where the next envelope for a method goes.
const (
	stateMetadata = iota
	stateField
	stateNever // never into a field
)

// methodState is one of the states above.
type methodState struct{ state atomic.Uint32 }

// fieldSupport holds the states of one channel's methods. A lookup takes no lock and allocates nothing.
type fieldSupport struct {
	methods atomic.Pointer[map[string]*methodState]
	mu      sync.Mutex // held to add a method
}

func (f *fieldSupport) lookup(method string) *methodState {
	if methods := f.methods.Load(); methods != nil {
		return (*methods)[method]
	}
	return nil
}

// add is lookup for a method whose callee has just announced that it takes fields. It returns nil if the channel has
// too many methods.
func (f *fieldSupport) add(method string) *methodState {
	f.mu.Lock()
	defer f.mu.Unlock()
	next := map[string]*methodState{}
	if methods := f.methods.Load(); methods != nil {
		if c := (*methods)[method]; c != nil {
			return c
		}
		if len(*methods) == maxMethods {
			return nil
		}
		maps.Copy(next, *methods)
	}
	c := new(methodState)
	next[method] = c
	f.methods.Store(&next)
	return c
}

// updateFieldSupport changes the method's state by how a call ended. failed means without a reply. Another call's
// history does not count.
func (c *clientCall) updateFieldSupport(history []byte, failed bool) {
	if head, _, err := wire.SplitHistory(history); err != nil || head.Call != c.id {
		history = nil
	}
	method, takesField := c.methodState, wire.TakesField(history)
	if method == nil {
		if !takesField {
			return
		}
		if method = c.fieldSupport.add(c.method); method == nil {
			return
		}
	}
	next := uint32(stateMetadata)
	switch {
	case takesField:
		next = stateField
	case history == nil && c.request.envelope == "":
		return // the envelope was in the metadata, so the call does not show whether a field gets through
	case history == nil && !failed:
		next = stateNever // something between caller and callee does not let fields through
	}
	if old := method.state.Load(); old != next && old != stateNever {
		method.state.CompareAndSwap(old, next)
	}
}

// clientRequest is a caller's message and the envelope to append to it. It embeds the message, so that code between
// hook and codec still finds a proto.Message.
type clientRequest struct {
	proto.Message
	envelope string
}

// placeInField puts the call's envelope into its message if that is allowed, and reports whether it did.
func (c *clientCall) placeInField(call *scope.OutgoingCall, req any) bool {
	if call.Envelope == "" || c.scope.Envelope().Bridge {
		return false
	}
	if c.methodState = c.fieldSupport.lookup(c.method); c.methodState == nil || c.methodState.state.Load() != stateField {
		return false
	}
	m, ok := req.(proto.Message)
	if !ok || proto.Size(m) > maxRequestBytes {
		return false
	}
	c.request = clientRequest{m, call.Envelope}
	return true
}

// outgoingMessage returns the message to send.
func (c *clientCall) outgoingMessage(req any) any {
	if c.request.envelope != "" {
		return &c.request
	}
	return req
}

func (c *wrappingCodec) marshalRequest(r *clientRequest) (mem.BufferSlice, error) {
	field := wire.FieldLength(len(r.envelope))
	if c.standard {
		if size := proto.Size(r.Message) + field; mem.IsBelowBufferPoolingThreshold(size) {
			out, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(make([]byte, 0, size), r.Message)
			if err != nil {
				return nil, err
			}
			return mem.BufferSlice{mem.SliceBuffer(appendEnvelope(out, r.envelope))}, nil
		}
	}
	out, err := c.CodecV2.Marshal(r.Message)
	if err != nil {
		return nil, err
	}
	return append(out, mem.SliceBuffer(appendEnvelope(make([]byte, 0, field), r.envelope))), nil
}

func appendEnvelope(b []byte, envelope string) []byte {
	b = append(wire.AppendFieldStart(b, len(envelope)), envelope...)
	return wire.AppendFieldEnd(b, wire.FieldLength(len(envelope)))
}

// pendingFields counts decoded requests that end with a field and have no scope yet. While it is 0, requests are not
// inspected: in a busy service the reflection for that was half of the cost of a request without an envelope. The count
// may be too high (a stream's message, an envelope that is refused, a call that ended before the hook), which only
// costs time.
var pendingFields atomic.Int64

// endsWithField reports whether a serialized message ends with a field. For a message in several buffers it only
// compares the magic at the end.
func endsWithField(data mem.BufferSlice) bool {
	rest := wire.Magic
	for i := len(data) - 1; i >= 0 && rest != ""; i-- {
		b := data[i].ReadOnlyData()
		n := min(len(b), len(rest))
		if string(b[len(b)-n:]) != rest[len(rest)-n:] {
			return false
		}
		rest = rest[:len(rest)-n]
	}
	if rest != "" || len(data) > 1 {
		return rest == ""
	}
	_, content := wire.CutField(data[0].ReadOnlyData())
	return content != nil
}

// removeEnvelope removes the envelope from a request's message and returns it. The protobuf library keeps unknown
// fields unchanged and in order, and the envelope is the last of them.
func removeEnvelope(req any) (envelope string, found bool) {
	if pendingFields.Load() == 0 {
		return "", false
	}
	m, ok := req.(proto.Message)
	if !ok {
		return "", false
	}
	r := m.ProtoReflect()
	unknown := r.GetUnknown()
	if len(unknown) == 0 {
		return "", false
	}
	rest, content := wire.CutField(unknown)
	if content == nil {
		return "", false
	}
	r.SetUnknown(rest[:len(rest):len(rest)]) // an append to the unknown fields must not overwrite the envelope
	return unsafe.String(unsafe.SliceData(content), len(content)), true
}
