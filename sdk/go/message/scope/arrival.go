package scope

import (
	"fmt"
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

// Open begins in s the scope of a request: of its envelope if that is acceptable, else, where the request was drawn or
// is drawn now, a scope of its own. False: the request is to be served as if there were no SDK.
func (p *Process) Open(s *Scope, a Arrival) bool {
	s.start = time.Now()
	if p.accept(s, a) || p.start(s, a) {
		s.begin(p)
		return true
	}
	return false
}

func (p *Process) accept(s *Scope, a Arrival) (ok bool) {
	var err error
	now := s.start.Unix()
	switch {
	case a.Own != "" && a.HTTP:
		ok, err = p.Receiver.AcceptHeader(&s.env, a.Own, now)
	case a.Own != "":
		ok, err = p.Receiver.Accept(&s.env, a.Own, now, a.Attempt)
	default:
		text, call, found := wire.BridgeIn(a.Traceparent, a.Baggage)
		if !found {
			return false
		}
		s.apart, s.hasParent = true, true
		ok, err = p.Receiver.AcceptBridged(&s.env, text, now, a.Attempt, call)
	}
	if err != nil {
		p.refused(err)
	}
	return ok && err == nil
}

// refused says why an envelope was refused, once for each reason: strangers may send anything, and a log that they can
// fill is a fault of its own.
func (p *Process) refused(err error) {
	if p.Say == nil {
		return
	}
	if _, known := p.said.LoadOrStore(err, nil); !known {
		fmt.Fprintf(p.Say, "%v: an envelope was refused (%s; further ones are not reported)\n", err, p.Service)
	}
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
