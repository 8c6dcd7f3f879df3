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
	maxRequestBytes = 64 << 10 // of a serialized message that may have one
	minFieldLimit   = 1 << 20  // of what a server takes and a channel sends, in bytes
	maxMethods      = 1024     // that a channel remembers
)

// Where the next envelope for a method goes.
const (
	stateMetadata = iota
	stateField
	stateNever
)

// callee is what a channel knows of one method: one of the states above.
type methodState struct{ state atomic.Uint32 }

// callees are those of one channel. Looking one up takes no lock and no memory.
type fieldSupport struct {
	methods atomic.Pointer[map[string]*methodState]
	mu      sync.Mutex // for who adds one
}

func (k *fieldSupport) lookup(method string) *methodState {
	if known := k.methods.Load(); known != nil {
		return (*known)[method]
	}
	return nil
}

// add is of for a method whose callee has just said that it takes fields; nil if that is one too many to remember.
func (k *fieldSupport) add(method string) *methodState {
	k.mu.Lock()
	defer k.mu.Unlock()
	next := map[string]*methodState{}
	if known := k.methods.Load(); known != nil {
		if c := (*known)[method]; c != nil {
			return c
		}
		if len(*known) == maxMethods {
			return nil
		}
		maps.Copy(next, *known)
	}
	c := new(methodState)
	next[method] = c
	k.methods.Store(&next)
	return c
}

// learn draws the conclusion from how a call ended. failed: without an answer. Another call's history is none.
func (c *clientCall) updateFieldSupport(history []byte, failed bool) {
	if id, _, err := wire.SplitHistory(history); err != nil || id != c.id {
		history = nil
	}
	to, takes := c.methodState, wire.TakesField(history)
	if to == nil {
		if !takes {
			return
		}
		if to = c.fieldSupport.add(c.method); to == nil {
			return
		}
	}
	next := uint32(stateMetadata)
	switch {
	case takes:
		next = stateField
	case history == nil && c.request.envelope == "":
		return // says nothing about fields
	case history == nil && !failed:
		next = stateNever // something on the way does not let them through
	}
	if old := to.state.Load(); old != next && old != stateNever {
		to.state.CompareAndSwap(old, next)
	}
}

// clientRequest is a caller's message and the envelope to append to it. It embeds the message for who meets it between hook and
// codec.
type clientRequest struct {
	proto.Message
	envelope string
}

// enclose puts the call's envelope into its message, if that is where it may go.
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

// message is what is to be sent.
func (c *clientCall) outgoingMessage(req any) any {
	if c.request.envelope != "" {
		return &c.request
	}
	return req
}

func (c *wrappingCodec) marshalRequest(r *clientRequest) (mem.BufferSlice, error) {
	field := wire.FieldLen(len(r.envelope))
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
	return wire.AppendFieldEnd(b, wire.FieldLen(len(envelope)))
}

// enclosed counts requests that were read, end with a field, and have no scope yet. While it is 0 no request is looked into: in a busy
// service the reflection for that was half of what a request without an envelope pays. It may be too high (a stream's message, an
// envelope that is not believed, a call refused before the hook): that costs time and nothing else.
var pendingFields atomic.Int64

// endsWithField tells whether a message that was read ends with a field.
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
	if rest != "" || len(data) > 1 { // in pieces it is close enough
		return rest == ""
	}
	_, content := wire.CutField(data[0].ReadOnlyData())
	return content != nil
}

// cutEnvelope takes the envelope out of a request's message, and is empty if there is none. What its type does not know the library
// keeps as it came, in its order: the envelope is the end of that.
func cutEnvelope(req any) string {
	if pendingFields.Load() == 0 {
		return ""
	}
	m, ok := req.(proto.Message)
	if !ok {
		return ""
	}
	r := m.ProtoReflect()
	unknown := r.GetUnknown()
	if len(unknown) == 0 {
		return ""
	}
	rest, cut := wire.CutField(unknown)
	if cut == nil {
		return ""
	}
	r.SetUnknown(rest[:len(rest):len(rest)]) // whoever appends to it must not write over the envelope
	return unsafe.String(unsafe.SliceData(cut), len(cut))
}
