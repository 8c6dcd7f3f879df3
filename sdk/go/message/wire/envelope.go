package wire

import (
	"strings"
)

// Where an envelope travels, and its limits.
const (
	GRPCKey          = "x-faultloom-bin"     // metadata of requests, trailer of replies
	HTTPHeader       = "X-Faultloom"         // request header, base64url without padding
	HistoryHeader    = "X-Faultloom-History" // reply header, base64url without padding
	ReplyHeader      = "X-Faultloom-Reply"   // "tail" or "gap"
	Version          = 1
	MaxEnvelopeBytes = 2048
	MaxHeaderChars   = 2731
	MaxExpirySeconds = 600
	SignatureBytes   = 16
	SignatureDomain  = "faultloom/1\n"
)

const (
	permitHistory = 1
	permitPlan    = 2
	permitRun     = 4
	permitBridge  = 8
	permitAll     = permitHistory | permitPlan | permitRun | permitBridge
)

// Accept is the set of carriers that the caller accepts for the history.
type Accept uint8

// Bits of Accept.
const (
	AcceptField Accept = 1 // appended protobuf field (gRPC)
	AcceptTail  Accept = 2 // tail after the body (HTTP)
)

// Signed is the part that the first sender of a request writes, once.
type Signed struct {
	History     bool // replies carry a history
	Bridge      bool // the envelope also travels in traceparent and baggage
	HasRun      bool // Run is there
	Trace, Run  [16]byte
	Expires     uint32 // unix seconds
	KeyID       string
	Environment string
	Plan        []Fault // nil: none
}

// Hop is the part that is written for each call. It is not signed.
type Hop struct {
	Call         uint64
	Accept       Accept
	ReceiveLimit uint64   // bytes the caller can receive in one message; 0: unknown, then no reply field
	Evidence     []uint64 // counters in the order of the format; empty without a plan
}

// Envelope is a decoded envelope.
type Envelope struct {
	Signed
	Hop
	SignedPrefix string // version byte to signature, as received; every further call repeats it
}

// UnverifiedEnvelope has the outer layers of an envelope whose signature was not checked yet.
type UnverifiedEnvelope struct {
	SignedPart          string // what the signature covers
	Signature           string // 16 bytes
	HasPlan             bool
	planBytes, hopBytes string
}

// DecodeEnvelope decodes the outer layers into e: checks 1 to 4 of the format. DecodeVerified decodes the plan and the
// hop part.
func DecodeEnvelope(raw string, e *Envelope) (u UnverifiedEnvelope, err error) {
	if len(raw) > MaxEnvelopeBytes {
		return u, Oversized
	}
	r := reader{rest: raw}
	if version := r.byte(); r.failed {
		return u, Malformed
	} else if version != Version {
		return u, UnsupportedVersion
	}
	u.SignedPart = r.bytes(r.boundedVarint(MaxEnvelopeBytes))
	u.Signature = r.bytes(SignatureBytes)
	if r.failed {
		return u, Malformed
	}
	u.hopBytes = r.rest
	e.SignedPrefix = raw[:len(raw)-len(u.hopBytes)]

	s := reader{rest: u.SignedPart}
	permissions := s.byte()
	copy(e.Trace[:], s.bytes(16))
	if e.HasRun = permissions&permitRun != 0; e.HasRun {
		copy(e.Run[:], s.bytes(16))
	}
	if b := s.bytes(4); !s.failed {
		e.Expires = uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
	}
	e.KeyID = s.string(1, 32)
	e.Environment = s.string(1, 64)
	e.History = permissions&permitHistory != 0
	e.Bridge = permissions&permitBridge != 0
	u.HasPlan = permissions&permitPlan != 0
	if s.failed || permissions&^permitAll != 0 || (!u.HasPlan && s.rest != "") {
		return u, Malformed
	}
	u.planBytes = s.rest
	return u, nil
}

// CarriesPlan reports whether an envelope claims to carry a plan. It checks nothing else.
func CarriesPlan(raw string) bool {
	r := reader{rest: raw}
	r.byte()
	r.varint()
	return r.byte()&permitPlan != 0
}

// DecodeVerified decodes the plan and the hop part into e: checks 12 and 13. Verify the signature first.
func (u *UnverifiedEnvelope) DecodeVerified(e *Envelope) error {
	if u.HasPlan {
		plan, err := decodePlan(u.planBytes)
		if err != nil {
			return err
		}
		e.Plan = plan
	}
	r := reader{rest: u.hopBytes}
	e.Call = r.uint64()
	e.Accept = Accept(r.byte())
	e.ReceiveLimit = r.varint()
	if n := CounterCount(e.Plan); n > 0 && !r.failed {
		e.Evidence = make([]uint64, n)
		for i := range e.Evidence {
			e.Evidence[i] = r.varint()
		}
	}
	if r.failed || r.rest != "" || e.Accept&^(AcceptField|AcceptTail) != 0 {
		return Malformed
	}
	return nil
}

// AppendSignedPart appends the part that the signature covers.
func AppendSignedPart(out []byte, s *Signed) ([]byte, error) {
	var permissions byte
	if s.History {
		permissions |= permitHistory
	}
	if s.Plan != nil {
		permissions |= permitPlan
	}
	if s.HasRun {
		permissions |= permitRun
	}
	if s.Bridge {
		permissions |= permitBridge
	}
	out = append(append(out, permissions), s.Trace[:]...)
	if s.HasRun {
		out = append(out, s.Run[:]...)
	}
	out = append(out, byte(s.Expires>>24), byte(s.Expires>>16), byte(s.Expires>>8), byte(s.Expires))
	out = AppendString(AppendString(out, s.KeyID), s.Environment)
	if s.Plan != nil {
		return appendPlan(out, s.Plan)
	}
	return out, nil
}

// AppendSignedPrefix appends the version byte, the signed part with its length, and the signature.
func AppendSignedPrefix(out, part, signature []byte) []byte {
	out = AppendVarint(append(out, Version), uint64(len(part)))
	return append(append(out, part...), signature[:SignatureBytes]...)
}

// AssembleEnvelope returns an envelope: the signed prefix, then the hop part with the current counters. The error is
// EnvelopeTooLarge; then the request must be sent without an envelope.
func AssembleEnvelope(signedPrefix string, call uint64, accept Accept, receiveLimit uint64, evidence []uint64) (string, error) {
	var tmp [96]byte
	hop := append(tmp[:0], byte(call>>56), byte(call>>48), byte(call>>40), byte(call>>32), byte(call>>24), byte(call>>16), byte(call>>8), byte(call))
	hop = AppendVarint(append(hop, byte(accept)), receiveLimit)
	for _, n := range evidence {
		hop = AppendVarint(hop, n)
	}
	if len(signedPrefix)+len(hop) > MaxEnvelopeBytes {
		return "", EnvelopeTooLarge
	}
	var out strings.Builder
	out.Grow(len(signedPrefix) + len(hop))
	out.WriteString(signedPrefix)
	out.Write(hop)
	return out.String(), nil
}

// WithCarriers returns an envelope that was assembled without carriers, now with carriers. It returns false if the
// envelope would be too large.
func WithCarriers(envelope, signedPrefix string, accept Accept, receiveLimit uint64) (string, bool) {
	at := len(signedPrefix) + 8 // after the call id
	var tmp [11]byte
	carriers := AppendVarint(append(tmp[:0], byte(accept)), receiveLimit)
	if len(envelope)-2+len(carriers) > MaxEnvelopeBytes {
		return envelope, false
	}
	return envelope[:at] + string(carriers) + envelope[at+2:], true
}
