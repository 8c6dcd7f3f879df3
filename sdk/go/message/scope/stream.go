package scope

import "faultloom.dev/go/message/wire"

// Pieces cuts the history of a scope that answers with a stream into the pieces that its replies take along. The zero
// value of the other fields is ready.
type Pieces struct {
	Scope *Scope

	taken  int  // bytes of the history that have left
	events int  // bytes of the events among them
	headed bool // the head is among them
	cut    bool // … with its truncated bit set
}

// Field returns the next piece as a reply field if there is something new and it makes a message longer by no more than
// room bytes; else it waits for the next message. Only one message may be on its way at a time.
func (p *Pieces) Field(room int) []byte {
	s := p.Scope
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rec == nil || (p.headed && p.events == len(s.rec.events)) {
		return nil
	}
	head := p.head("")
	events := s.rec.events[p.events:]
	size := wire.PieceLen(p.taken, len(head)+len(events))
	whole := wire.FieldLen(size)
	if whole > room {
		return nil
	}
	field := wire.AppendPieceHead(wire.AppendFieldStart(make([]byte, 0, whole), size), 0, p.taken)
	field = wire.AppendFieldEnd(append(append(field, head...), events...), whole)
	p.taken += len(head) + len(events)
	p.events += len(events)
	if !p.headed {
		p.headed, p.cut = true, s.flags&wire.SegmentTruncated != 0
	}
	return field
}

// New tells whether there is something for a message to take along.
func (p *Pieces) New() bool {
	p.Scope.mu.Lock()
	defer p.Scope.mu.Unlock()
	return p.Scope.rec != nil && (!p.headed || p.events < len(p.Scope.rec.events))
}

// head is what precedes the events, unless it has left.
func (p *Pieces) head(name string) []byte {
	if p.headed {
		return nil
	}
	s := p.Scope
	return wire.AppendPrefix(wire.AppendHead(nil, s.env.Call), s.flags, s.process.Service, name, s.startUS)
}

// Finish ends the scope like Scope.Finish and returns the last piece, for a trailer of at most limit bytes, or nil.
func (p *Pieces) Finish(at uint64, status uint64, name string, limit int) []byte {
	s := p.Scope
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rec == nil {
		return nil
	}
	s.close(at, status, &name)
	late := s.flags&wire.SegmentTruncated != 0 && p.headed && !p.cut
	rec := s.leave()
	defer rec.release()
	return wire.LastPiece(p.taken, p.head(name), rec.events[p.events:], late, limit)
}
