package wire

// Pieces of a stream's history.
//
//	u8 0x81  u8 flags  varint offset: bytes of the history before this piece  the next bytes of the history
const (
	PieceVersion   = 0x81
	PieceLast      = 1
	PieceTruncated = 2
)

// AppendPieceHead appends what precedes a piece's bytes.
func AppendPieceHead(b []byte, flags byte, offset int) []byte {
	return AppendVarint(append(b, PieceVersion, flags), uint64(offset))
}

// PieceLen is how many bytes a piece has that brings that many of the history.
func PieceLen(offset, history int) int { return 2 + VarintLen(uint64(offset)) + history }

// LastPiece is what is left of a history that goes into a trailer: head (what has not left yet before the events, or
// nothing) and events, the SendResponse last. Where it does not fit into limit, child histories go first, then the last
// events before the SendResponse. Nil if not even that one fits. truncated tells that something had been left out
// before.
func LastPiece(offset int, head, events []byte, truncated bool, limit int) []byte {
	flags := byte(PieceLast)
	if truncated {
		flags |= PieceTruncated
	}
	out := append(AppendPieceHead(make([]byte, 0, PieceLen(offset, len(head)+len(events))), flags, offset), head...)
	if len(out)+len(events) <= limit {
		return append(out, events...)
	}
	out[1] |= PieceTruncated
	list, ok := splitEvents(string(events))
	if !ok {
		return nil
	}
	return appendTruncated(out, list, limit)
}

// Joiner puts the pieces of a history together. The zero value is ready.
type PieceJoiner struct {
	history   []byte
	truncated bool
	ended     bool // the last piece came, or one that does not fit
	last      bool
}

// Add takes the next piece, which is not kept. What does not fit is dropped, together with all that follows.
func (j *PieceJoiner) Add(piece []byte) {
	if j.ended {
		return
	}
	flags, offset, bytes, ok := splitPiece(piece)
	if !ok || offset != uint64(len(j.history)) || len(j.history)+len(bytes) > MaxHistoryBytes {
		j.ended = true
		return
	}
	j.history = append(j.history, bytes...)
	j.truncated = j.truncated || flags&PieceTruncated != 0
	j.last = flags&PieceLast != 0
	j.ended = j.last
}

// Complete tells whether nothing is missing.
func (j *PieceJoiner) Complete() bool { return j.last && !j.truncated }

// History returns the history of a call, marked as truncated if something of it is missing, or nil: what came has no
// whole head, or is that of another call.
func (j *PieceJoiner) History(call uint64) []byte {
	id, segment, err := SplitHistory(j.history)
	if err != nil || id != call {
		return nil
	}
	r := reader{rest: string(segment[:min(len(segment), maxPrefixBytes)])}
	if decodePrefix(&r); r.failed {
		return nil
	}
	if !j.Complete() {
		j.history[HistoryHeadBytes] |= SegmentTruncated
	}
	return j.history
}

// maxPrefixBytes is more than a segment's flags, service, name and start can have.
const maxPrefixBytes = 1 + 10 + MaxServiceBytes + 10 + MaxNameBytes + 10

func splitPiece(b []byte) (flags byte, offset uint64, bytes []byte, ok bool) {
	if len(b) < 3 || b[0] != PieceVersion || b[1]&^(PieceLast|PieceTruncated) != 0 {
		return 0, 0, nil, false
	}
	r := reader{rest: string(b[2:min(len(b), 12)])}
	before := len(r.rest)
	offset = r.varint()
	return b[1], offset, b[2+before-len(r.rest):], !r.failed
}
