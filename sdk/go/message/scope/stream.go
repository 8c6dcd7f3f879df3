package scope

import "faultloom.dev/go/message/wire"

// PieceWriter cuts the history of a scope that answers with a stream into the pieces that its reply messages carry.
// Only Scope needs to be set.
type PieceWriter struct {
	Scope *Scope

	sentBytes      int  // bytes of the history in the pieces so far
	sentEventBytes int  // bytes of the events among them
	headSent       bool // the head is among them
	truncatedSent  bool // with its truncated bit set
}

// NextPiece returns the next piece as an appended reply field, if there are new events and the field has at most limit
// bytes. Otherwise it returns nil, and the events wait for the next message. Messages must be sent one at a time.
func (p *PieceWriter) NextPiece(limit int) []byte {
	s := p.Scope
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recording == nil || (p.headSent && p.sentEventBytes == len(s.recording.events)) {
		return nil
	}
	head := p.headBytes("")
	events := s.recording.events[p.sentEventBytes:]
	size := wire.PieceLength(p.sentBytes, len(head)+len(events))
	whole := wire.FieldLength(size)
	if whole > limit {
		return nil
	}
	field := wire.AppendPieceHead(wire.AppendFieldStart(make([]byte, 0, whole), size), 0, s.version, p.sentBytes)
	field = wire.AppendFieldEnd(append(append(field, head...), events...), whole)
	p.sentBytes += len(head) + len(events)
	p.sentEventBytes += len(events)
	if !p.headSent {
		p.headSent, p.truncatedSent = true, s.flags&wire.SegmentTruncated != 0
	}
	return field
}

// HasNext reports whether there is something new for a message to carry.
func (p *PieceWriter) HasNext() bool {
	p.Scope.mu.Lock()
	defer p.Scope.mu.Unlock()
	return p.Scope.recording != nil && (!p.headSent || p.sentEventBytes < len(p.Scope.recording.events))
}

// headBytes returns the part of the history before its events, or nil if it was sent.
func (p *PieceWriter) headBytes(name string) []byte {
	if p.headSent {
		return nil
	}
	s := p.Scope
	return wire.AppendPrefix(wire.AppendHead(nil, s.version, s.env.Call), s.flags, s.process.Service, name, s.startUS)
}

// LastPiece ends the scope as Scope.Finish does and returns the last piece, for a trailer of at most limit bytes, or
// nil if it does not fit.
func (p *PieceWriter) LastPiece(at uint64, status uint64, name string, limit int) []byte {
	s := p.Scope
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recording == nil {
		return nil
	}
	s.finishEvents(at, status, &name)
	truncatedLater := s.flags&wire.SegmentTruncated != 0 && p.headSent && !p.truncatedSent
	rec := s.detachRecording()
	defer rec.release()
	return wire.EncodeLastPiece(s.version, p.sentBytes, p.headBytes(name), rec.events[p.sentEventBytes:], truncatedLater, limit)
}
