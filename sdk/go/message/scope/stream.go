package scope

import "faultloom.dev/go/message/wire"

// Pieces cuts the history of a scope that answers with a stream into the pieces that its replies take along. The zero
// value of the other fields is ready.
type PieceWriter struct {
	Scope *Scope

	sentBytes      int  // bytes of the history that have left
	sentEventBytes int  // bytes of the events among them
	headSent       bool // the head is among them
	truncatedSent  bool // … with its truncated bit set
}

// Field returns the next piece as a reply field if there is something new and it makes a message longer by no more than
// room bytes; else it waits for the next message. Only one message may be on its way at a time.
func (p *PieceWriter) NextPiece(room int) []byte {
	s := p.Scope
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recording == nil || (p.headSent && p.sentEventBytes == len(s.recording.events)) {
		return nil
	}
	head := p.headBytes("")
	events := s.recording.events[p.sentEventBytes:]
	size := wire.PieceLen(p.sentBytes, len(head)+len(events))
	whole := wire.FieldLen(size)
	if whole > room {
		return nil
	}
	field := wire.AppendPieceHead(wire.AppendFieldStart(make([]byte, 0, whole), size), 0, p.sentBytes)
	field = wire.AppendFieldEnd(append(append(field, head...), events...), whole)
	p.sentBytes += len(head) + len(events)
	p.sentEventBytes += len(events)
	if !p.headSent {
		p.headSent, p.truncatedSent = true, s.flags&wire.SegmentTruncated != 0
	}
	return field
}

// New tells whether there is something for a message to take along.
func (p *PieceWriter) HasNext() bool {
	p.Scope.mu.Lock()
	defer p.Scope.mu.Unlock()
	return p.Scope.recording != nil && (!p.headSent || p.sentEventBytes < len(p.Scope.recording.events))
}

// head is what precedes the events, unless it has left.
func (p *PieceWriter) headBytes(name string) []byte {
	if p.headSent {
		return nil
	}
	s := p.Scope
	return wire.AppendPrefix(wire.AppendHead(nil, s.env.Call), s.flags, s.process.Service, name, s.startUS)
}

// Finish ends the scope like Scope.Finish and returns the last piece, for a trailer of at most limit bytes, or nil.
func (p *PieceWriter) LastPiece(at uint64, status uint64, name string, limit int) []byte {
	s := p.Scope
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recording == nil {
		return nil
	}
	s.finishEvents(at, status, &name)
	late := s.flags&wire.SegmentTruncated != 0 && p.headSent && !p.truncatedSent
	rec := s.detachRecording()
	defer rec.release()
	return wire.LastPiece(p.sentBytes, p.headBytes(name), rec.events[p.sentEventBytes:], late, limit)
}
