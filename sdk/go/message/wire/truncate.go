package wire

// event is where an event's bytes lie inside a segment.
type event struct {
	tag   byte
	dt    uint64
	bytes string // all of it
	fixed string // what follows tag and time, without a child history
}

// splitEvents takes events apart. They may be the later ones of a segment: whether a reference is one is not looked at.
func splitEvents(bytes string) (events []event, ok bool) {
	r := reader{left: bytes}
	for !r.bad && r.left != "" {
		all := r.left
		e := event{tag: r.byte(), dt: r.varint()}
		from := r.left
		fixedEnd := -1
		switch e.tag & tagKind {
		case SendRequest:
			skipRef(&r)
			skipRef(&r)
			if e.tag&TagFault != 0 {
				r.varint()
			}
		case RecvResponse, CallFailed:
			r.varint()
			r.varint()
			fixedEnd = len(r.left)
			if e.tag&TagChild != 0 {
				r.take(r.count(MaxHistoryBytes))
			}
		case SendResponse:
			r.varint()
		default:
			return nil, false
		}
		if r.bad {
			break
		}
		if fixedEnd < 0 {
			fixedEnd = len(r.left)
		}
		e.bytes = all[:len(all)-len(r.left)]
		e.fixed = from[:len(from)-fixedEnd]
		events = append(events, e)
	}
	return events, !r.bad
}

func skipRef(r *reader) {
	if r.varint() == 0 && !r.bad {
		r.str(1, MaxNameBytes)
	}
}

// Truncate cuts a history to at most limit bytes: first all child histories go, then the last events before the
// SendResponse. Nil if not even its frame fits. The error is that of a malformed history.
func Truncate(history []byte, limit int) ([]byte, error) {
	if len(history) <= limit {
		return history, nil
	}
	_, segment, err := SplitHistory(history)
	if err != nil {
		return nil, err
	}
	r := reader{left: string(segment)}
	decodePrefix(&r)
	events, ok := splitEvents(r.left)
	if r.bad || !ok {
		return nil, Malformed
	}
	out := append(make([]byte, 0, limit), history[:len(history)-len(r.left)]...)
	out[HistoryHeadBytes] |= SegmentTruncated
	return cutEvents(out, events, limit), nil
}

// cutEvents appends events without their child histories, and of those as many as fit before the SendResponse. Nil if
// not even that one fits.
func cutEvents(out []byte, events []event, limit int) []byte {
	head := len(out)
	var ends []int // where event i would end
	for i := range events {
		e := &events[i]
		if kind := e.tag & tagKind; e.tag&TagChild != 0 && (kind == RecvResponse || kind == CallFailed) {
			out = append(AppendVarint(append(out, e.tag&^TagChild|TagGap), e.dt), e.fixed...)
		} else {
			out = append(out, e.bytes...)
		}
		ends = append(ends, len(out))
	}
	if len(out) <= limit {
		return out
	}
	last := len(events) - 1
	if last < 0 || events[last].tag&tagKind != SendResponse {
		return nil
	}
	skipped := events[last].dt
	for kept := last; kept >= 0; kept-- {
		if kept < last {
			skipped += events[kept].dt
		}
		end := head
		if kept > 0 {
			end = ends[kept-1]
		}
		if end+1+VarintLen(skipped)+len(events[last].fixed) <= limit {
			return append(AppendVarint(append(out[:end], SendResponse), skipped), events[last].fixed...)
		}
	}
	return nil
}
