package trust

import (
	"encoding/base64"
	"strings"
	"sync"

	"faultloom.dev/go/message/wire"
)

// maxReplayEntries bounds the replay cache. The oldest entries are removed first.
const maxReplayEntries = 65_536

// Receiver runs the acceptance checks of the format on incoming envelopes. Safe for concurrent use.
type Receiver struct {
	source  source
	replays replayCache
}

// NewReceiver returns a receiver with fixed settings. With nil settings it ignores envelopes.
func NewReceiver(s *Settings) *Receiver {
	r := &Receiver{}
	r.source.current.Store(s)
	return r
}

// Accept checks the envelope of a gRPC request and decodes it into e. now is in unix seconds, attempt the number in
// grpc-previous-rpc-attempts or 0. Without settings, ok is false and there is no error. Every error is a wire.Error.
func (r *Receiver) Accept(e *wire.Envelope, raw string, now int64, attempt uint64) (ok bool, err error) {
	return r.acceptRaw(e, raw, now, attempt, 0)
}

// acceptRaw is Accept with the call id of a bridge: if call is not 0, it replaces the call id of the hop part.
func (r *Receiver) acceptRaw(e *wire.Envelope, raw string, now int64, attempt, call uint64) (ok bool, err error) {
	s := r.Settings()
	if s == nil {
		return false, nil
	}
	unverified, err := wire.DecodeEnvelope(raw, e)
	if err != nil {
		return false, err
	}
	if unverified.Signature == zeroSignature {
		return false, wire.Unsigned
	}
	key := s.Key(e.KeyID)
	switch {
	case key == nil:
		return false, wire.UnknownKey
	case !key.verify(unverified.SignedPart, unverified.Signature):
		return false, wire.BadSignature
	case e.Environment != s.Environment:
		return false, wire.WrongEnvironment
	case int64(e.Expires) <= now:
		return false, wire.Expired
	case int64(e.Expires) > now+wire.MaxExpirySeconds:
		return false, wire.ExpiryTooFar
	case unverified.HasPlan && !key.Fault:
		return false, wire.PlanNotPermitted
	}
	if err := unverified.DecodeVerified(e); err != nil {
		return false, err
	}
	if call != 0 { // the caller before the bridge does not read histories
		e.Call, e.Accept, e.ReceiveLimit = call, 0, 0
	}
	if e.Plan != nil && !r.replays.admit(replayKey{e.Trace, e.Call, attempt}, int64(e.Expires), now) {
		return false, wire.Replayed
	}
	return true, nil
}

const zeroSignature = "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"

// strictBase64 refuses stray bits in the last character, so that each envelope has exactly one text.
var strictBase64 = base64.RawURLEncoding.Strict()

// AcceptHeader checks the envelope in the header of an HTTP request; see Accept.
func (r *Receiver) AcceptHeader(e *wire.Envelope, header string, now int64) (ok bool, err error) {
	return r.AcceptBridged(e, header, now, 0, 0)
}

// AcceptBridged checks the text of an envelope that came in the baggage of a request. call is the parent id of its
// traceparent; see Accept.
func (r *Receiver) AcceptBridged(e *wire.Envelope, header string, now int64, attempt, call uint64) (ok bool, err error) {
	if r.Settings() == nil {
		return false, nil
	}
	if len(header) > wire.MaxHeaderChars {
		return false, wire.Oversized
	}
	if strings.ContainsAny(header, "\r\n") { // which the decoder would skip
		return false, wire.Malformed
	}
	raw, err := strictBase64.DecodeString(header)
	if err != nil {
		return false, wire.Malformed
	}
	return r.acceptRaw(e, string(raw), now, attempt, call)
}

// FaultsEnabled reports whether faults may fire at this service now. It reads a changed trust file again, at most every
// 200 ms.
func (r *Receiver) FaultsEnabled() bool {
	s := r.Settings()
	return s != nil && s.FaultsEnabled
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

// replayCache is a first-in first-out set of at most maxReplayEntries.
type replayCache struct {
	mu       sync.Mutex
	expiries map[replayKey]int64 // to expiry
	queue    []replayEntry
	head     int // index of the first entry of queue that is in use
}

// admit adds a key, and reports whether it was not in the set with an expiry in the future. Old entries are removed
// only for a new key.
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
		if old := s.queue[s.head]; s.expiries[old.key] == old.expires { // else the key was added again later
			delete(s.expiries, old.key)
		}
		s.head++
	}
	if s.head > 1024 && s.head*2 > len(s.queue) { // amortized O(1)
		s.queue = s.queue[:copy(s.queue, s.queue[s.head:])]
		s.head = 0
	}
	s.expiries[key] = expires
	s.queue = append(s.queue, replayEntry{key, expires})
	return true
}
