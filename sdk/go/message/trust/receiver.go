package trust

import (
	"encoding/base64"
	"sync"

	"faultloom.dev/go/message/wire"
)

// maxSeen bounds the memory against replays; the oldest entries leave first.
const maxSeen = 65_536

// Receiver runs the acceptance checks. Safe for concurrent use.
type Receiver struct {
	source source
	seen   seen
}

// NewReceiver makes a receiver with fixed settings; nil settings make it deaf.
func NewReceiver(s *Settings) *Receiver {
	r := &Receiver{}
	r.source.current.Store(s)
	return r
}

// Accept judges the envelope of a gRPC request. now is in unix seconds, attempt the number in
// grpc-previous-rpc-attempts or 0. Nil without an error means that the receiver is deaf; the error is a wire.Error.
func (r *Receiver) Accept(raw string, now int64, attempt uint64) (*wire.Envelope, error) {
	s := r.Settings()
	if s == nil {
		return nil, nil
	}
	o, err := wire.Open(raw)
	if err != nil {
		return nil, err
	}
	if o.Signature == zeroSignature {
		return nil, wire.Unsigned
	}
	key := s.Key(o.KeyID)
	switch {
	case key == nil:
		return nil, wire.UnknownKey
	case !key.verify(o.Part, o.Signature):
		return nil, wire.BadSignature
	case o.Environment != s.Environment:
		return nil, wire.WrongEnvironment
	case int64(o.Expires) <= now:
		return nil, wire.Expired
	case int64(o.Expires) > now+wire.MaxExpirySeconds:
		return nil, wire.ExpiryTooFar
	case o.HasPlan() && !key.Fault:
		return nil, wire.PlanNotPermitted
	}
	e, err := o.Finish()
	if err != nil {
		return nil, err
	}
	if e.Plan != nil && !r.seen.admit(seenKey{e.Trace, e.Call, attempt}, int64(e.Expires), now) {
		return nil, wire.Replayed
	}
	return e, nil
}

const zeroSignature = "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"

// strict refuses stray bits in the last character: one envelope has one text.
var strict = base64.RawURLEncoding.Strict()

// AcceptHeader judges the envelope of an HTTP request; see Accept.
func (r *Receiver) AcceptHeader(header string, now int64) (*wire.Envelope, error) {
	if r.Settings() == nil {
		return nil, nil
	}
	if len(header) > wire.MaxHeaderChars {
		return nil, wire.Oversized
	}
	for i := 0; i < len(header); i++ {
		if header[i] == '\r' || header[i] == '\n' { // the decoder would skip them
			return nil, wire.Malformed
		}
	}
	raw, err := strict.DecodeString(header)
	if err != nil {
		return nil, wire.Malformed
	}
	return r.Accept(string(raw), now, 0)
}

// FaultsOn tells whether faults may fire at this service now. It re-reads a changed trust file, at most every 200 ms.
func (r *Receiver) FaultsOn() bool {
	s := r.Settings()
	return s != nil && s.Faults
}

type seenKey struct {
	trace   [16]byte
	call    uint64
	attempt uint64
}

type seenEntry struct {
	key     seenKey
	expires int64
}

// seen is a first-in first-out set, in a ring that grows up to maxSeen.
type seen struct {
	mu    sync.Mutex
	set   map[seenKey]struct{}
	queue []seenEntry
	head  int // first live entry of queue
}

func (s *seen) admit(key seenKey, expires, now int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.set == nil {
		s.set = map[seenKey]struct{}{}
	}
	for s.head < len(s.queue) && (s.queue[s.head].expires <= now || len(s.set) >= maxSeen) {
		delete(s.set, s.queue[s.head].key)
		s.head++
	}
	if s.head > 1024 && s.head*2 > len(s.queue) { // amortised: each entry moves at most once per halving
		s.queue = s.queue[:copy(s.queue, s.queue[s.head:])]
		s.head = 0
	}
	if _, ok := s.set[key]; ok {
		return false
	}
	s.set[key] = struct{}{}
	s.queue = append(s.queue, seenEntry{key, expires})
	return true
}
