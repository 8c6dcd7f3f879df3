package scope

import (
	"strings"

	"faultloom.dev/go/message/entry"
	"faultloom.dev/go/message/wire"
)

// canceledCode is the gRPC code of a stream that is still open when its caller's scope answers.
const canceledCode = 1

// Finish records SEND_RESPONSE and returns the whole history. If no reply carries the history, Finish exports it and
// returns nil. The scope records and decides nothing afterwards, and a second Finish does nothing. name is the call as
// this service names it (an HTTP route template), or empty if it is the caller's name.
func (s *Scope) Finish(at uint64, status uint64, name string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recording == nil {
		return nil
	}
	size := s.finishEvents(at, status, &name)
	rec := s.detachRecording()
	out := s.appendHistory(make([]byte, 0, size), rec, name)
	rec.release()
	if s.exported {
		if x := s.process.Sampler.Exporter; x != nil && s.env.History {
			x.Add(entry.Finished{Trace: s.env.Trace, HasParent: s.hasParent, History: out})
		}
		return nil
	}
	return out
}

// PendingHistory is a finished history that has not been written to its carrier. It can be written once.
type PendingHistory struct {
	scope     *Scope
	recording *recording // nil once the history was written
	size      int
}

// FinishLater is Finish for a history whose carrier is not decided yet, which avoids a copy of the history.
func (s *Scope) FinishLater(at uint64, status uint64) PendingHistory {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recording == nil {
		return PendingHistory{}
	}
	name := ""
	size := s.finishEvents(at, status, &name)
	return PendingHistory{scope: s, size: size, recording: s.detachRecording()}
}

// FieldLength returns how many bytes AppendField adds.
func (h *PendingHistory) FieldLength() int {
	if h.recording == nil {
		return 0
	}
	return wire.FieldLength(h.size)
}

// AppendField appends the history as a reply field.
func (h *PendingHistory) AppendField(b []byte) []byte {
	if h.recording == nil {
		return b
	}
	field := h.FieldLength()
	return wire.AppendFieldEnd(h.appendTo(wire.AppendFieldStart(b, h.size)), field)
}

// History returns the bytes of the history, or nil if it was written before.
func (h *PendingHistory) History() []byte {
	if h.recording == nil {
		return nil
	}
	return h.appendTo(make([]byte, 0, h.size))
}

func (h *PendingHistory) appendTo(b []byte) []byte {
	b = h.scope.appendHistory(b, h.recording, "")
	h.recording.release()
	h.recording = nil
	return b
}

// finishEvents records the end of open streams and started replies, the calls that may belong to the scope, then
// SEND_RESPONSE. It returns the length of the history.
func (s *Scope) finishEvents(at uint64, status uint64, name *string) int {
	for i := range s.recording.calls {
		switch c := &s.recording.calls[i]; {
		case c.ended:
		case c.pieces != nil:
			s.endCallLocked(wire.CallFailed, at, uint64(i)+1, CallEnd{Status: canceledCode})
		case c.replyStarted:
			s.endCallLocked(wire.RecvResponse, at, uint64(i)+1, CallEnd{Status: uint64(c.replyStatus), Gap: true})
		}
	}
	if unscopedSent.Load() != s.unscopedBefore {
		calls, more := s.unscopedCalls()
		s.recordUnscopedLocked(at, calls, more)
	}
	var dt uint64
	if at > s.lastUS {
		dt = at - s.lastUS
	}
	s.recording.events = wire.AppendVarint(wire.AppendVarint(append(s.recording.events, wire.SendResponse), dt), status)
	*name = wire.TruncateString(strings.ToValidUTF8(*name, "?"), wire.MaxNameBytes)
	return wire.HistoryHeadBytes + 1 + 1 + len(s.process.Service) + wire.VarintLength(uint64(len(*name))) + len(*name) +
		wire.VarintLength(s.startUS) + len(s.recording.events)
}

// appendHistory appends the whole history. Call it after finishEvents, when nothing changes any more.
func (s *Scope) appendHistory(out []byte, rec *recording, name string) []byte {
	out = wire.AppendHead(out, s.version, s.env.Call)
	out = wire.AppendPrefix(out, s.flags, s.process.Service, name, s.startUS)
	return append(out, rec.events...)
}
