package wire

// Pieces of a stream's history.
//
//	u8 0x81  u8 flags  varint offset: bytes of the history before this piece  the next bytes of the history
const (
	PieceVersion   = 0x81
	PieceLast      = 1
	PieceTruncated = 2
	PieceVersion2  = 4 // the history has version 2, although a head that was sent before has version 1
)

// AppendPieceHead appends the bytes before a piece's part of the history, which has the given version now.
func AppendPieceHead(b []byte, flags, version byte, offset int) []byte {
	if version == Version2 {
		flags |= PieceVersion2
	}
	return AppendVarint(append(b, PieceVersion, flags), uint64(offset))
}

// PieceLength returns the length of a piece with the given number of history bytes.
func PieceLength(offset, history int) int { return 2 + VarintLength(uint64(offset)) + history }

// EncodeLastPiece returns the piece for a trailer: head (the unsent bytes before the events, may be empty) and the
// unsent events, of which SendResponse is the last. If the piece exceeds limit, child histories are removed first, then
// the last events before SendResponse. It returns nil if not even SendResponse fits. truncated means that events or
// child histories were already left out before, and version is that of the history.
func EncodeLastPiece(version byte, offset int, head, events []byte, truncated bool, limit int) []byte {
	flags := byte(PieceLast)
	if truncated {
		flags |= PieceTruncated
	}
	out := append(AppendPieceHead(make([]byte, 0, PieceLength(offset, len(head)+len(events))), flags, version, offset), head...)
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

// PieceJoiner joins the pieces of a history. The zero value is ready.
type PieceJoiner struct {
	history   []byte
	truncated bool
	version2  bool // a piece had PieceVersion2
	ended     bool // after the last piece, or one that was dropped
	last      bool
}

// Add adds the next piece and does not retain it. A piece that does not continue the history is dropped, and so are all
// pieces after it.
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
	j.version2 = j.version2 || flags&PieceVersion2 != 0
	j.last = flags&PieceLast != 0
	j.ended = j.last
}

// IsComplete reports whether no part of the history is missing.
func (j *PieceJoiner) IsComplete() bool { return j.last && !j.truncated }

// History returns the history of a call, marked as truncated if a part is missing. It returns nil if the pieces contain
// no whole head, or belong to another call.
func (j *PieceJoiner) History(call uint64) []byte {
	head, segment, err := SplitHistory(j.history)
	if err != nil || head.Call != call {
		return nil
	}
	r := reader{rest: string(segment[:min(len(segment), maxPrefixBytes)])}
	if decodePrefix(&r); r.failed {
		return nil
	}
	if j.version2 {
		j.history[0] = Version2
	}
	if !j.IsComplete() {
		j.history[HistoryHeadBytes] |= SegmentTruncated
	}
	return j.history
}

// maxPrefixBytes is an upper bound of a segment's flags, service, name and start.
const maxPrefixBytes = 1 + 10 + MaxServiceBytes + 10 + MaxNameBytes + 10

func splitPiece(b []byte) (flags byte, offset uint64, bytes []byte, ok bool) {
	if len(b) < 3 || b[0] != PieceVersion || b[1]&^(PieceLast|PieceTruncated|PieceVersion2) != 0 {
		return 0, 0, nil, false
	}
	r := reader{rest: string(b[2:min(len(b), 12)])}
	before := len(r.rest)
	offset = r.varint()
	return b[1], offset, b[2+before-len(r.rest):], !r.failed
}
