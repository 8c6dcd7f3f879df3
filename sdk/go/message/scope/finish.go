package scope

import (
	"faultloom.dev/go/message/entry"
	"faultloom.dev/go/message/wire"
)

// End says how a call ended.
type CallEnd struct {
	Status  uint64 // gRPC code or HTTP status; of a failed call always a gRPC code
	History []byte // what came back, or nil; not kept
	Gap     bool   // without a history: the callee may have run
}

// Reply records that the reply of a call arrived. A history is taken once per call and only if it answers this call;
// somebody else's (a caching proxy hands such back) is a gap.
func (s *Scope) RecordReply(at uint64, call uint64, end CallEnd) {
	s.endCall(wire.RecvResponse, at, call, end)
}

// Failed records that a call ended without a reply.
func (s *Scope) RecordFailure(at uint64, call uint64, end CallEnd) {
	s.endCall(wire.CallFailed, at, call, end)
}

// Begun notes that a reply has begun whose history is still to come. If it never does, Finish records a gap.
func (s *Scope) ReplyStarted(call uint64, status uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recording == nil || call == 0 || call > uint64(len(s.recording.calls)) {
		return
	}
	c := &s.recording.calls[call-1]
	c.replyStarted, c.replyStatus = true, uint32(status)
}

// Opened notes that a call is a stream, whose history comes in pieces. If it is still open when the scope answers, or
// is ended without a history, it ends with what has come.
func (s *Scope) OpenStream(call uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recording != nil && call > 0 && call <= uint64(len(s.recording.calls)) {
		s.recording.calls[call-1].pieces = new(wire.PieceJoiner)
	}
}

// Piece takes the next piece of a stream's history, which is not kept.
func (s *Scope) AddPiece(call uint64, piece []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recording == nil || call == 0 || call > uint64(len(s.recording.calls)) || s.recording.calls[call-1].pieces == nil {
		return
	}
	s.recording.calls[call-1].pieces.Add(piece)
}

func (s *Scope) endCall(kind byte, at uint64, number uint64, end CallEnd) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endCallLocked(kind, at, number, end)
}

func (s *Scope) endCallLocked(kind byte, at uint64, number uint64, end CallEnd) {
	if s.recording == nil || number == 0 || number > uint64(len(s.recording.calls)) || s.recording.calls[number-1].ended {
		return
	}
	call := &s.recording.calls[number-1]
	call.ended = true
	if call.pieces != nil && end.History == nil {
		end.History = call.pieces.History(wire.DeriveCallID(s.env.Call, number))
		end.Gap = end.Gap || end.History == nil
	}
	call.pieces = nil
	var child []byte
	if end.History != nil {
		id, segment, err := wire.SplitHistory(end.History)
		if err == nil && id == wire.DeriveCallID(s.env.Call, number) {
			child = segment
		}
	}
	if s.evidence != nil {
		if kind == wire.RecvResponse {
			s.evidence.countPrerequisites(false, s.process.Service, call.peer, call.name)
		}
		if child != nil {
			if segment, err := wire.DecodeSegment(child); err == nil {
				s.evidence.addHistory(segment)
			} // else it is embedded all the same: that the whole cannot be read tells more than a gap
		}
	}
	gap := end.Gap
	if end.History != nil {
		gap = child == nil
	}
	if number > s.recordedCalls {
		s.flags |= wire.SegmentTruncated
		return
	}
	if len(s.recording.events)+len(child) > wire.MaxHistoryBytes-reservedBytes {
		child, gap = nil, true
		s.flags |= wire.SegmentTruncated
	}
	tag := kind
	if child != nil {
		tag |= wire.TagChild
	}
	if gap {
		tag |= wire.TagGap
	}
	if !s.appendEvent(tag, at, len(child)+32) {
		return
	}
	s.recording.events = wire.AppendVarint(wire.AppendVarint(s.recording.events, number), end.Status)
	if child != nil {
		s.recording.events = append(wire.AppendVarint(s.recording.events, uint64(len(child))), child...)
	}
}

// Finish records the answer and returns the whole history, or nil if no reply takes it along; then it is exported. The
// scope records and decides nothing more, and a second Finish does nothing. name is the call as this service knows it
// (an HTTP route template), or empty: the same as the caller's.
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
		if x := s.process.Entry.Export; x != nil && s.env.History {
			x.Add(entry.Finished{Trace: s.env.Trace, HasParent: s.hasParent, History: out})
		}
		return nil
	}
	return out
}

// cancelled is the gRPC code of a stream that its caller has left.
const canceledCode = 1

// Ended is a history that waits for the buffer it is to be written into. It can be had once.
type PendingHistory struct {
	scope     *Scope
	recording *recording // nil once it was written
	size      int
}

// FinishLater is Finish for a history whose carrier is not known yet, so that it is written once and in its place.
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

// FieldLen is how many bytes AppendField adds.
func (e *PendingHistory) FieldLen() int {
	if e.recording == nil {
		return 0
	}
	return wire.FieldLen(e.size)
}

// AppendField appends the history as a reply field.
func (e *PendingHistory) AppendField(b []byte) []byte {
	if e.recording == nil {
		return b
	}
	field := e.FieldLen()
	return wire.AppendFieldEnd(e.appendTo(wire.AppendFieldStart(b, e.size)), field)
}

// History returns the history as it is.
func (e *PendingHistory) History() []byte {
	if e.recording == nil {
		return nil
	}
	return e.appendTo(make([]byte, 0, e.size))
}

func (e *PendingHistory) appendTo(b []byte) []byte {
	b = e.scope.appendHistory(b, e.recording, "")
	e.recording.release()
	e.recording = nil
	return b
}

// close ends the events and returns how long the history will be.
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
	var dt uint64
	if at > s.lastUS {
		dt = at - s.lastUS
	}
	s.recording.events = wire.AppendVarint(wire.AppendVarint(append(s.recording.events, wire.SendResponse), dt), status)
	*name = wire.TruncateString(*name, wire.MaxNameBytes)
	return wire.HistoryHeadBytes + 1 + 1 + len(s.process.Service) + wire.VarintLen(uint64(len(*name))) + len(*name) +
		wire.VarintLen(s.startUS) + len(s.recording.events)
}

// write appends the history. Call it when the events have ended: then nothing of it changes any more.
func (s *Scope) appendHistory(out []byte, rec *recording, name string) []byte {
	out = wire.AppendHead(out, s.env.Call)
	out = wire.AppendPrefix(out, s.flags, s.process.Service, name, s.startUS)
	return append(out, rec.events...)
}
