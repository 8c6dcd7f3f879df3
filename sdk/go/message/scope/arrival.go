package scope

import (
	"time"

	"faultloom.dev/go/message/wire"
)

// Arrival is what a request brought along.
type Arrival struct {
	Own         string // the usual carrier: raw bytes (gRPC) or the text of the header (HTTP)
	HTTP        bool   // Own is such a text
	Attempt     uint64 // grpc-previous-rpc-attempts, or 0
	Traceparent string
	Baggage     string
	Drawn       bool // by Process.Draw
}

// Open begins in s the scope of a request: of its envelope if that is acceptable, else, where the request was drawn or is drawn now, a scope
// of its own. False: the request is to be served as if there were no SDK.
func (p *Process) Open(s *Scope, a Arrival) bool {
	s.start = time.Now()
	if p.accept(s, a) || p.start(s, a) {
		s.begin(p)
		return true
	}
	return false
}

func (p *Process) accept(s *Scope, a Arrival) bool {
	now := s.start.Unix()
	if a.Own != "" {
		if a.HTTP {
			ok, err := p.Receiver.AcceptHeader(&s.env, a.Own, now)
			return ok && err == nil
		}
		ok, err := p.Receiver.Accept(&s.env, a.Own, now, a.Attempt)
		return ok && err == nil
	}
	text, call, ok := wire.BridgeIn(a.Traceparent, a.Baggage)
	if !ok {
		return false
	}
	ok, err := p.Receiver.AcceptBridged(&s.env, text, now, a.Attempt, call)
	s.apart, s.hasParent = true, true
	return ok && err == nil
}

// New begins the scope of an accepted envelope. start also serves as the wall clock.
func (p *Process) New(env *wire.Envelope, start time.Time) *Scope {
	s := &Scope{env: *env, start: start}
	s.begin(p)
	return s
}

// BridgeOut is what traceparent and baggage are when a call's request leaves; see wire.BridgeOut.
func (s *Scope) BridgeOut(c *Call, traceparent, baggage string) (string, string) {
	return wire.BridgeOut(traceparent, baggage, c.Envelope, wire.Traceparent{Trace: s.env.Trace, Parent: c.ID})
}
