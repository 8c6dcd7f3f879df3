package scope

import (
	"fmt"
	"time"

	"faultloom.dev/go/message/wire"
)

// IncomingRequest is what a request carries for the SDK.
type IncomingRequest struct {
	Envelope    string // raw bytes (gRPC) or the text of the header (HTTP)
	HasEnvelope bool   // the request carries Envelope, which may be empty; then it is refused
	HTTP        bool   // Envelope is the text of a header
	Attempt     uint64 // grpc-previous-rpc-attempts, or 0
	Traceparent string
	Baggage     string
	Sampled     bool // entry.Sampler.Sample has selected this request
}

// OpenScope begins the scope of a request in s: with the request's envelope if it is accepted, else with a new envelope
// if the request is sampled. If it returns false, the request is not traced.
func (p *Process) OpenScope(s *Scope, r IncomingRequest) bool {
	s.start = time.Now()
	if p.acceptEnvelope(s, r) || p.sampleScope(s, r) {
		s.open(p)
		return true
	}
	return false
}

func (p *Process) acceptEnvelope(s *Scope, r IncomingRequest) (ok bool) {
	var err error
	now := s.start.Unix()
	switch {
	case r.HasEnvelope && r.HTTP:
		ok, err = p.Receiver.AcceptHeader(&s.env, r.Envelope, now)
	case r.HasEnvelope:
		ok, err = p.Receiver.Accept(&s.env, r.Envelope, now, r.Attempt)
	default:
		text, call, found := wire.ExtractBridge(r.Traceparent, r.Baggage)
		if !found {
			return false
		}
		s.exported, s.hasParent = true, true
		ok, err = p.Receiver.AcceptBridged(&s.env, text, now, r.Attempt, call)
	}
	if err != nil {
		p.reportRefusal(err)
	}
	return ok && err == nil
}

// reportRefusal logs why an envelope was refused, once per reason: anybody may send envelopes, and must not be able to
// fill the log.
func (p *Process) reportRefusal(err error) {
	if p.Log == nil {
		return
	}
	if _, reported := p.reported.LoadOrStore(err, nil); !reported {
		fmt.Fprintf(p.Log, "%v: an envelope was refused (%s; further ones are not reported)\n", err, p.Service)
	}
}

// NewScope begins the scope of an accepted envelope.
func (p *Process) NewScope(env *wire.Envelope, start time.Time) *Scope {
	s := &Scope{env: *env, start: start}
	s.open(p)
	return s
}

// InjectBridge returns the traceparent and baggage of a call's request; see wire.InjectBridge.
func (s *Scope) InjectBridge(c *OutgoingCall, traceparent, baggage string) (string, string) {
	return wire.InjectBridge(traceparent, baggage, c.Envelope, wire.Traceparent{Trace: s.env.Trace, Parent: c.ID})
}
