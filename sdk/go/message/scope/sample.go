package scope

import (
	"math/rand/v2"
	"time"

	"faultloom.dev/go/message/trust"
	"faultloom.dev/go/message/wire"
)

// sampledTTLSeconds is how long the envelope of a sampled request is valid.
const sampledTTLSeconds = 60

// sampleScope fills s with a new envelope if the request is sampled.
func (p *Process) sampleScope(s *Scope, r IncomingRequest) bool {
	s.env, s.exported, s.hasParent = wire.Envelope{}, false, false // clear what a refused envelope left behind
	if !r.Sampled && !p.Sampler.Sample() {
		return false
	}
	settings := p.Receiver.Settings()
	if settings == nil {
		return false
	}
	key := settings.SigningKey(false)
	if key == nil {
		return false
	}
	parent, ok := wire.ParseTraceparent(r.Traceparent)
	if !ok {
		parent = wire.Traceparent{Trace: RandomTraceID(), Parent: RandomCallID()}
	}
	s.env.Signed = wire.Signed{History: true, Bridge: p.Sampler.Bridge, Trace: parent.Trace,
		Expires: uint32(s.start.Add(sampledTTLSeconds * time.Second).Unix())}
	s.env.Call = parent.Parent
	if err := (trust.Signer{Key: key, Environment: settings.Environment}).Sign(&s.env); err != nil {
		return false
	}
	s.exported, s.hasParent = true, ok
	return true
}

// RandomTraceID returns a trace id that is not zero.
func RandomTraceID() (id [16]byte) {
	for i, a, b := 0, rand.Uint64(), rand.Uint64()|1; i < 8; i++ {
		id[i], id[i+8] = byte(a>>(8*i)), byte(b>>(8*i))
	}
	return id
}

// RandomCallID returns the id of the call that begins a request. It is not zero.
func RandomCallID() uint64 { return rand.Uint64() | 1 }
