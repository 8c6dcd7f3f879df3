package wire

// eventBytes are the parts of an encoded event.
type eventBytes struct {
	tag  byte
	dt   uint64
	all  string // all of it
	body string // what follows tag and time, without a child history
}

// splitEvents splits encoded events. It does not check references into the string table, since the events may begin in
// the middle of a segment.
func splitEvents(bytes string) (events []eventBytes, ok bool) {
	r := reader{rest: bytes}
	for !r.failed && r.rest != "" {
		all := r.rest
		e := eventBytes{tag: r.byte(), dt: r.varint()}
		from := r.rest
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
			if e.tag&TagConnected != 0 {
				r.varint()
			}
			fixedEnd = len(r.rest)
			if e.tag&TagChild != 0 {
				r.bytes(r.boundedVarint(MaxHistoryBytes))
			}
		case SendResponse:
			r.varint()
		case UnscopedCalls:
			skipRef(&r)
			skipRef(&r)
			r.varint()
			r.string(0, MaxNameBytes)
		default:
			return nil, false
		}
		if r.failed {
			break
		}
		if fixedEnd < 0 {
			fixedEnd = len(r.rest)
		}
		e.all = all[:len(all)-len(r.rest)]
		e.body = from[:len(from)-fixedEnd]
		events = append(events, e)
	}
	return events, !r.failed
}

func skipRef(r *reader) {
	if r.varint() == 0 && !r.failed {
		r.string(1, MaxNameBytes)
	}
}

// TruncateHistory shortens a history to at most limit bytes: it removes all child histories first, then the last events
// before SendResponse. It returns nil if not even SendResponse fits. Errors: those of a malformed history.
func TruncateHistory(history []byte, limit int) ([]byte, error) {
	if len(history) <= limit {
		return history, nil
	}
	_, segment, err := SplitHistory(history)
	if err != nil {
		return nil, err
	}
	r := reader{rest: string(segment)}
	decodePrefix(&r)
	events, ok := splitEvents(r.rest)
	if r.failed || !ok {
		return nil, Malformed
	}
	out := append(make([]byte, 0, limit), history[:len(history)-len(r.rest)]...)
	out[HistoryHeadBytes] |= SegmentTruncated
	return appendTruncated(out, events, limit), nil
}

// appendTruncated appends events without their child histories, as many as fit before SendResponse. It returns nil if
// not even SendResponse fits.
func appendTruncated(out []byte, events []eventBytes, limit int) []byte {
	head := len(out)
	var ends []int // where event i would end
	for i := range events {
		e := &events[i]
		if kind := e.tag & tagKind; e.tag&TagChild != 0 && (kind == RecvResponse || kind == CallFailed) {
			out = append(AppendVarint(append(out, e.tag&^TagChild|TagGap), e.dt), e.body...)
		} else {
			out = append(out, e.all...)
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
		if end+1+VarintLength(skipped)+len(events[last].body) <= limit {
			return append(AppendVarint(append(out[:end], SendResponse), skipped), events[last].body...)
		}
	}
	return nil
}
