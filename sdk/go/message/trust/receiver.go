package trust

import (
	"encoding/base64"
	"strings"
	"sync"

	"faultloom.dev/go/message/wire"
)

// maxSeen bounds the memory against replays; the oldest entries leave first.
const maxReplayEntries = 65_536

// Receiver runs the acceptance checks. Safe for concurrent use.
type Receiver struct {
	source  settingsSource
	replays replayCache
}

// NewReceiver makes a receiver with fixed settings; nil settings make it deaf.
func NewReceiver(s *Settings) *Receiver {
	r := &Receiver{}
	r.source.current.Store(s)
	return r
}

// Accept judges the envelope of a gRPC request and fills e. now is in unix seconds, attempt the number in
// grpc-previous-rpc-attempts or 0. ok is false without an error when the receiver is deaf; the error is a wire.Error.
func (r *Receiver) Accept(e *wire.Envelope, raw string, now int64, attempt uint64) (ok bool, err error) {
	return r.acceptRaw(e, raw, now, attempt, 0)
}

// accept is Accept for an envelope that came over a bridge: call, if not 0, takes the place of the hop part's.
func (r *Receiver) acceptRaw(e *wire.Envelope, raw string, now int64, attempt, call uint64) (ok bool, err error) {
	s := r.Settings()
	if s == nil {
		return false, nil
	}
	o, err := wire.DecodeEnvelope(raw, e)
	if err != nil {
		return false, err
	}
	if o.Signature == zeroSignature {
		return false, wire.Unsigned
	}
	key := s.Key(e.KeyID)
	switch {
	case key == nil:
		return false, wire.UnknownKey
	case !key.verify(o.SignedPart, o.Signature):
		return false, wire.BadSignature
	case e.Environment != s.Environment:
		return false, wire.WrongEnvironment
	case int64(e.Expires) <= now:
		return false, wire.Expired
	case int64(e.Expires) > now+wire.MaxExpirySeconds:
		return false, wire.ExpiryTooFar
	case o.HasPlan && !key.Fault:
		return false, wire.PlanNotPermitted
	}
	if err := o.DecodeVerified(e); err != nil {
		return false, err
	}
	if call != 0 { // nobody up there would take a history away
		e.Call, e.Accept, e.ReceiveLimit = call, 0, 0
	}
	if e.Plan != nil && !r.replays.admit(replayKey{e.Trace, e.Call, attempt}, int64(e.Expires), now) {
		return false, wire.Replayed
	}
	return true, nil
}

const zeroSignature = "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"

// strict refuses stray bits in the last character: one envelope has one text.
var strictBase64 = base64.RawURLEncoding.Strict()

// AcceptHeader judges the envelope of an HTTP request; see Accept.
func (r *Receiver) AcceptHeader(e *wire.Envelope, header string, now int64) (ok bool, err error) {
	return r.AcceptBridged(e, header, now, 0, 0)
}

// AcceptBridged judges the text of an envelope that came in the baggage of a request for that call; see Accept.
func (r *Receiver) AcceptBridged(e *wire.Envelope, header string, now int64, attempt, call uint64) (ok bool, err error) {
	if r.Settings() == nil {
		return false, nil
	}
	if len(header) > wire.MaxHeaderChars {
		return false, wire.Oversized
	}
	if strings.ContainsAny(header, "\r\n") { // the decoder would skip them
		return false, wire.Malformed
	}
	raw, err := strictBase64.DecodeString(header)
	if err != nil {
		return false, wire.Malformed
	}
	return r.acceptRaw(e, string(raw), now, attempt, call)
}

// FaultsOn tells whether faults may fire at this service now. It re-reads a changed trust file, at most every 200 ms.
func (r *Receiver) FaultsEnabled() bool {
	s := r.Settings()
	return s != nil && s.Faults
}

type replayKey struct {
	trace   [16]byte
	call    uint64
	attempt uint64
}

type replayEntry struct {
	key     replayKey
	expires int64
}

// seen is a first-in first-out set, in a ring that grows up to maxSeen.
type replayCache struct {
	mu       sync.Mutex
	expiries map[replayKey]int64 // to expiry
	queue    []replayEntry
	head     int // first live entry of queue
}

// admit tells whether a key was not seen before its expiry, and remembers it. Room is made only for a newcomer: who is
// known takes nobody's place.
func (s *replayCache) admit(key replayKey, expires, now int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.expiries[key] > now {
		return false
	}
	if s.expiries == nil {
		s.expiries = map[replayKey]int64{}
	}
	for s.head < len(s.queue) && (s.queue[s.head].expires <= now || len(s.queue)-s.head >= maxReplayEntries) {
		if old := s.queue[s.head]; s.expiries[old.key] == old.expires { // else it came again
			delete(s.expiries, old.key)
		}
		s.head++
	}
	if s.head > 1024 && s.head*2 > len(s.queue) { // amortised: each entry moves at most once per halving
		s.queue = s.queue[:copy(s.queue, s.queue[s.head:])]
		s.head = 0
	}
	s.expiries[key] = expires
	s.queue = append(s.queue, replayEntry{key, expires})
	return true
}
