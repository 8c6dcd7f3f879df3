package scope

import (
	"fmt"
	"time"

	"faultloom.dev/go/message/wire"
)

// Arrival is what a request brought along.
type IncomingRequest struct {
	Envelope    string // the usual carrier: raw bytes (gRPC) or the text of the header (HTTP)
	HTTP        bool   // Own is such a text
	Attempt     uint64 // grpc-previous-rpc-attempts, or 0
	Traceparent string
	Baggage     string
	Sampled     bool // by Process.Draw
}

// Open begins in s the scope of a request: of its envelope if that is acceptable, else, where the request was drawn or
// is drawn now, a scope of its own. False: the request is to be served as if there were no SDK.
func (p *Process) OpenScope(s *Scope, a IncomingRequest) bool {
	s.start = time.Now()
	if p.acceptEnvelope(s, a) || p.sampleScope(s, a) {
		s.open(p)
		return true
	}
	return false
}

func (p *Process) acceptEnvelope(s *Scope, a IncomingRequest) (ok bool) {
	var err error
	now := s.start.Unix()
	switch {
	case a.Envelope != "" && a.HTTP:
		ok, err = p.Receiver.AcceptHeader(&s.env, a.Envelope, now)
	case a.Envelope != "":
		ok, err = p.Receiver.Accept(&s.env, a.Envelope, now, a.Attempt)
	default:
		text, call, found := wire.ExtractBridge(a.Traceparent, a.Baggage)
		if !found {
			return false
		}
		s.exported, s.hasParent = true, true
		ok, err = p.Receiver.AcceptBridged(&s.env, text, now, a.Attempt, call)
	}
	if err != nil {
		p.reportRefusal(err)
	}
	return ok && err == nil
}

// refused says why an envelope was refused, once for each reason: strangers may send anything, and a log that they can
// fill is a fault of its own.
func (p *Process) reportRefusal(err error) {
	if p.Log == nil {
		return
	}
	if _, known := p.reported.LoadOrStore(err, nil); !known {
		fmt.Fprintf(p.Log, "%v: an envelope was refused (%s; further ones are not reported)\n", err, p.Service)
	}
}

// New begins the scope of an accepted envelope. start also serves as the wall clock.
func (p *Process) NewScope(env *wire.Envelope, start time.Time) *Scope {
	s := &Scope{env: *env, start: start}
	s.open(p)
	return s
}

// BridgeOut is what traceparent and baggage are when a call's request leaves; see wire.BridgeOut.
func (s *Scope) InjectBridge(c *OutgoingCall, traceparent, baggage string) (string, string) {
	return wire.InjectBridge(traceparent, baggage, c.Envelope, wire.Traceparent{Trace: s.env.Trace, Parent: c.ID})
}
