package scope

import "faultloom.dev/go/message/wire"

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
	if call == 0 || call > uint64(len(s.sent)) {
		return
	}
	c := &s.sent[call-1]
	c.begun, c.status = true, uint32(status)
}

func (s *Scope) end(kind byte, at uint64, number uint64, end End) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLocked(kind, at, number, end)
}

func (s *Scope) endLocked(kind byte, at uint64, number uint64, end End) {
	if s.closed || number == 0 || number > uint64(len(s.sent)) || s.sent[number-1].ended {
		return
	}
	call := &s.sent[number-1]
	call.ended = true
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
			} else {
				child = nil // it would spoil the whole history
			}
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
	if len(s.events)+len(child) > wire.MaxHistoryBytes-room {
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
	s.events = wire.AppendVarint(wire.AppendVarint(s.events, number), end.Status)
	if child != nil {
		s.events = append(wire.AppendVarint(s.events, uint64(len(child))), child...)
	}
}

// Finish records the answer and returns the whole history; the scope records and decides nothing more. name is the
// call as this service knows it (an HTTP route template), or empty: the same as the caller's. room is how many bytes
// the caller of Finish will append; they are allocated with the rest.
func (s *Scope) Finish(at uint64, status uint64, name string, room int) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.sent {
		if c := &s.sent[i]; c.begun && !c.ended {
			s.endLocked(wire.RecvResponse, at, uint64(i)+1, End{Status: uint64(c.status), Gap: true})
		}
	}
	if !s.closed {
		s.closed = true
		var dt uint64
		if at > s.last {
			dt = at - s.last
		}
		s.events = wire.AppendVarint(wire.AppendVarint(append(s.events, wire.SendResponse), dt), status)
	}
	name = wire.Cut(name, wire.MaxNameBytes)
	out := make([]byte, 0, len(s.events)+len(s.process.Service)+len(name)+24+room)
	out = wire.AppendHead(out, s.env.Call)
	out = wire.AppendPrefix(out, s.flags, s.process.Service, name, s.startUS)
	return append(out, s.events...)
}
