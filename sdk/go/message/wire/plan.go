package wire

// Limits of a plan.
const (
	MaxFaults      = 64
	MaxStrings     = 128
	maxStringBytes = 128
	maxAfter       = 8
)

// Kind is the kind of a fault.
type Kind uint8

// The nine kinds, numbered as on the wire.
const (
	Unavailable  Kind = 1 + iota // connection refused; the callee does not run
	Status                       // status Arg; the callee does not run
	Deadline                     // deadline exceeded at once; the callee does not run
	Reset                        // connection reset; the callee does not run
	Delay                        // the reply, after Arg milliseconds (at most 30 s)
	Hang                         // deadline exceeded, after Arg milliseconds (30 s if 0); the callee does not run
	LostReply                    // the callee runs, the connection breaks
	EmptyReply                   // the callee runs, its reply arrives empty
	CorruptReply                 // the callee runs, the second half of its reply is 0xFF
)

var kindNames = [...]string{Unavailable: "unavailable", Status: "status", Deadline: "deadline", Reset: "reset", Delay: "delay",
	Hang: "hang", LostReply: "lost-reply", EmptyReply: "empty-reply", CorruptReply: "corrupt-reply"}

func (k Kind) String() string {
	if int(k) < len(kindNames) && k > 0 {
		return kindNames[k]
	}
	return "unknown"
}

// ParseKind is the inverse of Kind.String; ok is false for other names.
func ParseKind(name string) (kind Kind, ok bool) {
	for k, n := range kindNames {
		if n == name && k > 0 {
			return Kind(k), true
		}
	}
	return 0, false
}

// Selector selects calls. An empty part matches anything.
type Selector struct {
	Caller string // service name of the sender
	Callee string // peer name, its host, or the first label of its host
	Call   string // full name, what follows the name's last '/', or a template with '*' or '{…}' parts
}

// After is a prerequisite: at least Times (≥ 1) calls that match the selector must have happened.
type After struct {
	Selector
	Times uint64
}

// Fault is one entry of a plan. Zero means "not set" for Arg, Nth and MaxFires.
type Fault struct {
	Kind Kind
	Selector
	Arg       uint64  // status: the code; delay, hang: milliseconds
	Nth       uint64  // fire only at the n-th matching call, from 1
	MaxFires  uint64  // fire at most this many times
	After     []After // all must hold; at most 8
	AfterSent bool    // After counts calls that were sent, instead of calls that were completed
}

const (
	flagArg = 1 << iota
	flagNth
	flagMaxFires
	flagAfter
	flagAfterSent
)

// CounterCount returns how many evidence counters a plan has in the hop part.
func CounterCount(plan []Fault) int {
	n := 0
	for i := range plan {
		if plan[i].Nth != 0 {
			n++
		}
		if plan[i].MaxFires != 0 {
			n++
		}
		n += len(plan[i].After)
	}
	return n
}

func decodePlan(bytes string) ([]Fault, error) {
	r := reader{rest: bytes}
	n := r.boundedVarint(MaxStrings)
	strings := make([]string, 1, n+1)
	for i := 0; i < n; i++ {
		strings = append(strings, r.string(1, maxStringBytes))
	}
	faults := r.varint()
	switch {
	case r.failed || faults == 0:
		return nil, Malformed
	case faults > MaxFaults:
		return nil, TooManyFaults
	}
	plan := make([]Fault, faults)
	for i := range plan {
		if err := decodeFault(&r, strings, &plan[i]); err != nil {
			return nil, err
		}
	}
	if r.failed || r.rest != "" {
		return nil, Malformed
	}
	return plan, nil
}

func decodeFault(r *reader, strings []string, f *Fault) error {
	f.Kind = Kind(r.byte())
	if r.failed {
		return Malformed
	}
	if f.Kind < Unavailable || f.Kind > CorruptReply {
		return UnknownFault
	}
	flags := r.byte()
	if flags&^(flagArg|flagNth|flagMaxFires|flagAfter|flagAfterSent) != 0 {
		return Malformed
	}
	f.Selector = decodeSelector(r, strings)
	if flags&flagArg != 0 {
		f.Arg = r.varint()
	}
	if flags&flagNth != 0 {
		f.Nth = readPositive(r)
	}
	if flags&flagMaxFires != 0 {
		f.MaxFires = readPositive(r)
	}
	if flags&flagAfter != 0 {
		n := r.boundedVarint(maxAfter)
		if n == 0 {
			return Malformed
		}
		f.After = make([]After, n)
		for i := range f.After {
			f.After[i] = After{decodeSelector(r, strings), readPositive(r)}
		}
	}
	f.AfterSent = flags&flagAfterSent != 0
	if r.failed {
		return Malformed
	}
	return nil
}

func readPositive(r *reader) uint64 {
	v := r.varint()
	if v == 0 {
		r.fail()
	}
	return v
}

func decodeSelector(r *reader, strings []string) Selector {
	part := func() string { return strings[r.boundedVarint(len(strings)-1)] }
	return Selector{Caller: part(), Callee: part(), Call: part()}
}

// appendPlan appends a plan. Errors: Malformed for an empty plan, TooManyFaults, UnknownFault, and EnvelopeTooLarge for
// other limits of the format.
func appendPlan(out []byte, plan []Fault) ([]byte, error) {
	if len(plan) == 0 {
		return nil, Malformed
	}
	if len(plan) > MaxFaults {
		return nil, TooManyFaults
	}
	var strings []string
	body := AppendVarint(nil, uint64(len(plan)))
	put := func(s Selector) {
	next:
		for _, text := range [...]string{s.Caller, s.Callee, s.Call} {
			if text == "" {
				body = append(body, 0)
				continue
			}
			for i, existing := range strings {
				if existing == text {
					body = AppendVarint(body, uint64(i)+1)
					continue next
				}
			}
			strings = append(strings, text)
			body = AppendVarint(body, uint64(len(strings)))
		}
	}
	for i := range plan {
		f := &plan[i]
		if f.Kind < Unavailable || f.Kind > CorruptReply {
			return nil, UnknownFault
		}
		if len(f.After) > maxAfter {
			return nil, EnvelopeTooLarge
		}
		var flags byte
		for bit, set := range [...]bool{f.Arg != 0, f.Nth != 0, f.MaxFires != 0, len(f.After) > 0, f.AfterSent} {
			if set {
				flags |= 1 << bit
			}
		}
		body = append(body, byte(f.Kind), flags)
		put(f.Selector)
		for _, v := range [...]uint64{f.Arg, f.Nth, f.MaxFires} {
			if v != 0 {
				body = AppendVarint(body, v)
			}
		}
		if len(f.After) > 0 {
			body = AppendVarint(body, uint64(len(f.After)))
			for _, a := range f.After {
				put(a.Selector)
				body = AppendVarint(body, a.Times)
			}
		}
	}
	if len(strings) > MaxStrings {
		return nil, EnvelopeTooLarge
	}
	out = AppendVarint(out, uint64(len(strings)))
	for _, s := range strings {
		if len(s) > maxStringBytes {
			return nil, EnvelopeTooLarge
		}
		out = AppendString(out, s)
	}
	return append(out, body...), nil
}
