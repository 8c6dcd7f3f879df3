package trust

import "faultloom.dev/go/message/wire"

// Signer signs the envelopes of requests that start at this process.
type Signer struct {
	Key         *Key
	Environment string
}

// Sign sets the key id, the environment and the signed prefix of e from its other fields. Errors: PlanNotPermitted for
// a plan with a trace key, EnvelopeTooLarge, and those of wire.AppendSignedPart.
func (s Signer) Sign(e *wire.Envelope) error {
	if len(e.Plan) > 0 && !s.Key.Fault {
		return wire.PlanNotPermitted
	}
	e.KeyID, e.Environment = s.Key.ID, s.Environment
	var part, out [256]byte // enough without a plan
	signed, err := wire.AppendSignedPart(part[:0], &e.Signed)
	if err != nil {
		return err
	}
	if len(signed) > wire.MaxEnvelopeBytes {
		return wire.EnvelopeTooLarge
	}
	e.SignedPrefix = string(s.Key.Sign(out[:0], signed))
	return nil
}
