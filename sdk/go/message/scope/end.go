package scope

import (
	"faultloom.dev/go/message/export"
	"faultloom.dev/go/message/wire"
)

// End says how a call ended.
type End struct {
	Status  uint64 // gRPC code or HTTP status; of a failed call always a gRPC code
	History []byte // what came back, or nil; not kept
	Gap     bool   // without a history: the callee may have run
}

// Reply records that the reply of a call arrived. A history is taken once per call and only if it answers this call;
// somebody else's (a caching proxy hands such back) is a gap.
func (s *Scope) Reply(at uint64, call uint64, end End) { s.end(wire.RecvResponse, at, call, end) }

// Failed records that a call ended without a reply.
func (s *Scope) Failed(at uint64, call uint64, end End) { s.end(wire.CallFailed, at, call, end) }

// Begun notes that a reply has begun whose history is still to come. If it never does, Finish records a gap.
func (s *Scope) Begun(call uint64, status uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rec == nil || call == 0 || call > uint64(len(s.rec.sent)) {
		return
	}
	c := &s.rec.sent[call-1]
	c.begun, c.status = true, uint32(status)
}

// Opened notes that a call is a stream, whose history comes in pieces. If it is still open when the scope answers, or
// is ended without a history, it ends with what has come.
func (s *Scope) Opened(call uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rec != nil && call > 0 && call <= uint64(len(s.rec.sent)) {
		s.rec.sent[call-1].pieces = new(wire.Joiner)
	}
}

// Piece takes the next piece of a stream's history, which is not kept.
func (s *Scope) Piece(call uint64, piece []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rec == nil || call == 0 || call > uint64(len(s.rec.sent)) || s.rec.sent[call-1].pieces == nil {
		return
	}
	s.rec.sent[call-1].pieces.Add(piece)
}

func (s *Scope) end(kind byte, at uint64, number uint64, end End) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLocked(kind, at, number, end)
}

func (s *Scope) endLocked(kind byte, at uint64, number uint64, end End) {
	if s.rec == nil || number == 0 || number > uint64(len(s.rec.sent)) || s.rec.sent[number-1].ended {
		return
	}
	call := &s.rec.sent[number-1]
	call.ended = true
	if call.pieces != nil && end.History == nil {
		end.History = call.pieces.History(wire.CallID(s.env.Call, number))
		end.Gap = end.Gap || end.History == nil
	}
	call.pieces = nil
	var child []byte
	if end.History != nil {
		id, segment, err := wire.SplitHistory(end.History)
		if err == nil && id == wire.CallID(s.env.Call, number) {
			child = segment
		}
	}
	if s.evidence != nil {
		if kind == wire.RecvResponse {
			s.evidence.count(false, s.process.Service, call.peer, call.name)
		}
		if child != nil {
			if segment, err := wire.DecodeSegment(child); err == nil {
				s.evidence.walk(segment)
			} // else it is embedded all the same: that the whole cannot be read tells more than a gap
		}
	}
	gap := end.Gap
	if end.History != nil {
		gap = child == nil
	}
	if number > s.recorded {
		s.flags |= wire.SegmentTruncated
		return
	}
	if len(s.rec.events)+len(child) > wire.MaxHistoryBytes-room {
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
	if !s.event(tag, at, len(child)+32) {
		return
	}
	s.rec.events = wire.AppendVarint(wire.AppendVarint(s.rec.events, number), end.Status)
	if child != nil {
		s.rec.events = append(wire.AppendVarint(s.rec.events, uint64(len(child))), child...)
	}
}

// Finish records the answer and returns the whole history, or nil if no reply takes it along; then it is exported. The
// scope records and decides nothing more, and a second Finish does nothing. name is the call as this service knows it
// (an HTTP route template), or empty: the same as the caller's.
func (s *Scope) Finish(at uint64, status uint64, name string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rec == nil {
		return nil
	}
	size := s.close(at, status, &name)
	rec := s.leave()
	out := s.write(make([]byte, 0, size), rec, name)
	rec.release()
	if s.apart {
		if x := s.process.Entry.Export; x != nil && s.env.History {
			x.Add(export.Finished{Trace: s.env.Trace, HasParent: s.hasParent, History: out})
		}
		return nil
	}
	return out
}

// cancelled is the gRPC code of a stream that its caller has left.
const cancelled = 1

// Ended is a history that waits for the buffer it is to be written into. It can be had once.
type Ended struct {
	scope *Scope
	rec   *recording // nil once it was written
	size  int
}

// FinishLater is Finish for a history whose carrier is not known yet, so that it is written once and in its place.
func (s *Scope) FinishLater(at uint64, status uint64) Ended {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rec == nil {
		return Ended{}
	}
	name := ""
	size := s.close(at, status, &name)
	return Ended{scope: s, size: size, rec: s.leave()}
}

// FieldLen is how many bytes AppendField adds.
func (e *Ended) FieldLen() int {
	if e.rec == nil {
		return 0
	}
	return wire.FieldLen(e.size)
}

// AppendField appends the history as a reply field.
func (e *Ended) AppendField(b []byte) []byte {
	if e.rec == nil {
		return b
	}
	field := e.FieldLen()
	return wire.AppendFieldEnd(e.write(wire.AppendFieldStart(b, e.size)), field)
}

// History returns the history as it is.
func (e *Ended) History() []byte {
	if e.rec == nil {
		return nil
	}
	return e.write(make([]byte, 0, e.size))
}

func (e *Ended) write(b []byte) []byte {
	b = e.scope.write(b, e.rec, "")
	e.rec.release()
	e.rec = nil
	return b
}

// close ends the events and returns how long the history will be.
func (s *Scope) close(at uint64, status uint64, name *string) int {
	for i := range s.rec.sent {
		switch c := &s.rec.sent[i]; {
		case c.ended:
		case c.pieces != nil:
			s.endLocked(wire.CallFailed, at, uint64(i)+1, End{Status: cancelled})
		case c.begun:
			s.endLocked(wire.RecvResponse, at, uint64(i)+1, End{Status: uint64(c.status), Gap: true})
		}
	}
	var dt uint64
	if at > s.last {
		dt = at - s.last
	}
	s.rec.events = wire.AppendVarint(wire.AppendVarint(append(s.rec.events, wire.SendResponse), dt), status)
	*name = wire.Cut(*name, wire.MaxNameBytes)
	return wire.HistoryHeadBytes + 1 + 1 + len(s.process.Service) + wire.VarintLen(uint64(len(*name))) + len(*name) +
		wire.VarintLen(s.startUS) + len(s.rec.events)
}

// write appends the history. Call it when the events have ended: then nothing of it changes any more.
func (s *Scope) write(out []byte, rec *recording, name string) []byte {
	out = wire.AppendHead(out, s.env.Call)
	out = wire.AppendPrefix(out, s.flags, s.process.Service, name, s.startUS)
	return append(out, rec.events...)
}
