package wire

// Version2 is the version of a history with what version 1 does not have: inherited calls, calls that belonged to no
// request, and times for connections.
const Version2 = 2

// Limits when reading a history.
const (
	MaxHistoryBytes  = 4 << 20
	MaxHistoryDepth  = 64
	MaxHistoryEvents = 100_000
	MaxCountedEvents = 10_000 // that a scope reads of one reply's history, to count them for its plan
	MaxServiceBytes  = 64
	HistoryHeadBytes = 9
)

// Tags of events: kind in bits 0-2, flags above.
const (
	SendRequest   = 1
	RecvResponse  = 2
	CallFailed    = 3
	SendResponse  = 4
	UnscopedCalls = 5 // version 2
	tagKind       = 7

	TagFault     = 8  // SendRequest: a fault fired
	TagHTTP      = 16 // SendRequest, UnscopedCalls: HTTP, else gRPC
	TagChild     = 8  // RecvResponse, CallFailed: a child segment follows
	TagGap       = 16 // RecvResponse, CallFailed: no history arrived, although the callee may have run
	TagInherited = 32 // SendRequest, version 2: the call has the scope of its goroutine, because its context had none
	TagConnected = 32 // RecvResponse, CallFailed, version 2: the call has set up a connection
)

// Flags of a segment.
const (
	SegmentTruncated  = 1
	SegmentFaultsOff  = 2
	SegmentTakesField = 4
)

// TakesField reports whether a history announces that its service takes envelopes in a field of the method's requests.
func TakesField(history []byte) bool {
	return len(history) > HistoryHeadBytes && isSupported(history[0]) && history[HistoryHeadBytes]&SegmentTakesField != 0
}

func isSupported(version byte) bool { return version == Version || version == Version2 }

// History is the record of one call that a reply carries.
type History struct {
	Call    uint64 // id of the call it answers
	Segment *Segment
}

// Segment is what one scope did to answer its call.
type Segment struct {
	Truncated bool   // events or child histories were left out
	FaultsOff bool   // faults are switched off at this service
	Service   string // the service that recorded it
	Name      string // the callee's name of the call; empty: the caller's name
	StartUS   uint64 // µs since the unix epoch, by this service's clock
	Events    []Event
}

// Event is the sending or receiving of one message. Events are in the order in which they happened at their service.
type Event struct {
	Kind      int    // SendRequest, RecvResponse, CallFailed, SendResponse or UnscopedCalls
	AtUS      uint64 // µs since the segment's start, monotonic
	Call      uint64 // number of the call within the segment, from 1; 0 for SendResponse and UnscopedCalls
	Name      string // SendRequest, UnscopedCalls: the call
	Peer      string // SendRequest, UnscopedCalls: the caller's name for the callee
	HTTP      bool   // SendRequest, UnscopedCalls: HTTP, else gRPC
	Fault     int    // SendRequest: index of the fault that fired, -1 for none
	Inherited bool   // SendRequest: the call has the scope of its goroutine, because its context had none
	Count     uint64 // UnscopedCalls: number of equal calls
	Site      string // UnscopedCalls: where the program made them, or empty

	Status    uint64 // gRPC code or HTTP status; CallFailed: always a gRPC code
	ConnectUS uint64 // RecvResponse, CallFailed: how long the call spent on a connection of its own; 0: none, or unknown
	Gap       bool
	Child     *Segment
}

// AppendHead appends the head of a history: the bytes before its segment.
func AppendHead(b []byte, version byte, call uint64) []byte {
	return append(b, version, byte(call>>56), byte(call>>48), byte(call>>40), byte(call>>32), byte(call>>24), byte(call>>16), byte(call>>8), byte(call))
}

// AppendPrefix appends a segment up to its events.
func AppendPrefix(b []byte, flags byte, service, name string, startUS uint64) []byte {
	return AppendVarint(AppendString(AppendString(append(b, flags), service), name), startUS)
}

// HistoryHead is what a history has before its segment.
type HistoryHead struct {
	Version byte
	Call    uint64 // id of the call that the history answers
}

// SplitHistory checks size, version and head, and returns the head and the segment's bytes, which it does not check.
func SplitHistory(b []byte) (head HistoryHead, segment []byte, err error) {
	switch {
	case len(b) == 0 || len(b) > MaxHistoryBytes:
		return head, nil, Malformed
	case !isSupported(b[0]):
		return head, nil, UnsupportedVersion
	case len(b) < HistoryHeadBytes:
		return head, nil, Malformed
	}
	head.Version = b[0]
	for _, c := range b[1:HistoryHeadBytes] {
		head.Call = head.Call<<8 | uint64(c)
	}
	return head, b[HistoryHeadBytes:], nil
}

// DecodeHistory decodes a whole history. Errors: Malformed, UnsupportedVersion.
func DecodeHistory(b []byte) (*History, error) {
	head, rest, err := SplitHistory(b)
	if err != nil {
		return nil, err
	}
	segment, err := DecodeSegment(head.Version, rest)
	if err != nil {
		return nil, err
	}
	return &History{Call: head.Call, Segment: segment}, nil
}

// DecodeSegment decodes a segment without the head of a history, which has the given version. Error: Malformed. A
// segment nested in it that cannot be read, or with which there would be more than MaxHistoryEvents events, is left
// out, and its call has a gap.
func DecodeSegment(version byte, b []byte) (*Segment, error) {
	return decodeSegment(string(b), 0, &eventBudget{version: version, left: MaxHistoryEvents})
}

// DecodeCounted is DecodeSegment for a scope that counts the events of a reply's history. It ends after
// MaxCountedEvents events, and reports that the segment has more. s is nil if the segment cannot be read or has too
// many events.
func DecodeCounted(version byte, b []byte) (s *Segment, tooLarge bool) {
	budget := eventBudget{version: version, left: MaxCountedEvents, endsReading: true}
	s, _ = decodeSegment(string(b), 0, &budget)
	return s, budget.exceeded
}

// eventBudget limits the events of a segment and of all that are nested in it.
type eventBudget struct {
	version     byte // of the history, which decides which events and flags there are
	left        int
	endsReading bool // reading ends where the budget ends; else only the segment that exceeds it is left out
	exceeded    bool
}

func decodePrefix(r *reader) Segment {
	flags := r.byte()
	if flags&^(SegmentTruncated|SegmentFaultsOff|SegmentTakesField) != 0 {
		r.fail()
	}
	return Segment{
		Truncated: flags&SegmentTruncated != 0,
		FaultsOff: flags&SegmentFaultsOff != 0,
		Service:   r.string(1, MaxServiceBytes),
		Name:      r.string(0, MaxNameBytes),
		StartUS:   r.varint(),
	}
}

func decodeRef(r *reader, table *[]string) string {
	if k := r.boundedVarint(len(*table)); k > 0 {
		return (*table)[k-1]
	}
	if r.failed {
		return ""
	}
	s := r.string(1, MaxNameBytes)
	*table = append(*table, s)
	return s
}

func decodeSegment(b string, depth int, budget *eventBudget) (*Segment, error) {
	if depth >= MaxHistoryDepth {
		return nil, Malformed
	}
	r := reader{rest: b}
	segment := decodePrefix(&r)
	var table []string
	var ended []bool // by call number - 1
	var nested []nestedSegment
	var at uint64
	for !r.failed && r.rest != "" {
		if budget.left == 0 {
			budget.exceeded = true
			return nil, Malformed
		}
		budget.left--
		if n := len(segment.Events); n > 0 && segment.Events[n-1].Kind == SendResponse {
			return nil, Malformed
		}
		tag := r.byte()
		dt := r.varint()
		if at+dt < at || tag&^(tagKind|8|16|TagInherited) != 0 {
			return nil, Malformed
		}
		bit5 := tag&TagInherited != 0 // also TagConnected
		if kind := tag & tagKind; bit5 && (budget.version != Version2 || kind != SendRequest && kind != RecvResponse && kind != CallFailed) {
			return nil, Malformed
		}
		at += dt
		e := Event{Kind: int(tag & tagKind), AtUS: at, Fault: -1}
		switch e.Kind {
		case SendRequest:
			ended = append(ended, false)
			e.Call = uint64(len(ended))
			e.Name = decodeRef(&r, &table)
			e.Peer = decodeRef(&r, &table)
			e.HTTP, e.Inherited = tag&TagHTTP != 0, bit5
			if tag&TagFault != 0 {
				e.Fault = r.boundedVarint(MaxFaults - 1)
			}
		case RecvResponse, CallFailed:
			e.Call = uint64(r.boundedVarint(len(ended)))
			e.Status = r.varint()
			if bit5 {
				e.ConnectUS = r.varint()
			}
			if e.Call == 0 || ended[e.Call-1] {
				return nil, Malformed
			}
			ended[e.Call-1] = true
			e.Gap = tag&TagGap != 0
			if tag&TagChild != 0 {
				nested = append(nested, nestedSegment{len(segment.Events), r.bytes(r.boundedVarint(MaxHistoryBytes))})
			}
		case SendResponse:
			if tag != SendResponse {
				return nil, Malformed
			}
			e.Status = r.varint()
		case UnscopedCalls:
			if budget.version != Version2 || tag&TagChild != 0 {
				return nil, Malformed
			}
			e.Name = decodeRef(&r, &table)
			e.Peer = decodeRef(&r, &table)
			e.HTTP = tag&TagHTTP != 0
			e.Count = r.varint()
			e.Site = r.string(0, MaxNameBytes)
		default:
			return nil, Malformed
		}
		segment.Events = append(segment.Events, e)
	}
	if r.failed {
		return nil, Malformed
	}
	// after the segment's own events: however large a nested segment is, they are not left out
	for _, n := range nested {
		before := budget.left
		child, err := decodeSegment(n.bytes, depth+1, budget)
		if err != nil && budget.endsReading && budget.exceeded {
			return nil, err
		}
		if err != nil && !budget.endsReading {
			budget.left = before // events that are left out do not count
		}
		e := &segment.Events[n.event]
		e.Child, e.Gap = child, e.Gap || err != nil
	}
	return &segment, nil
}

// nestedSegment is the segment that belongs to the event with this index.
type nestedSegment struct {
	event int
	bytes string
}
