package faultloom

import (
	"context"
	"errors"
	"time"

	"faultloom.dev/go/message/scope"
	"faultloom.dev/go/message/trust"
	"faultloom.dev/go/message/wire"
)

// Options of a request's start. The zero value traces without faults, with the keys of this process's trust settings.
type Options struct {
	Service string        // who starts; default: this process's service name
	Plan    []Fault       // faults; needs a fault key
	Run     [16]byte      // the run this belongs to; zero: none
	Trace   [16]byte      // zero: a random one
	Root    uint64        // id from which all call ids are derived; 0: random. The same root gives the same ids
	Bridge  bool          // also travel in traceparent and baggage, over hops that know OpenTelemetry only
	TTL     time.Duration // how long the envelope is good for, at most 10 minutes; 0: one minute
	Trust   *trust.Settings
}

// ErrNoKey means that no trust settings, or no key for this purpose, are at hand.
var ErrNoKey = errors.New("faultloom: no key to sign with")

// Request is a request that was begun here.
type Request struct{ scope *scope.Scope }

// Start begins a request. Calls made with the returned context carry the envelope, over gRPC and over HTTP where the
// hooks are installed. Errors: ErrNoKey, or a wire.Error if the plan does not fit the format. It does not block.
func Start(ctx context.Context, o Options) (context.Context, *Request, error) {
	p := scope.DefaultProcess()
	settings := o.Trust
	if settings == nil {
		if settings = p.Receiver.Settings(); settings == nil {
			return ctx, nil, ErrNoKey
		}
	} else {
		p = &scope.Process{Service: p.Service, Peers: p.Peers, Receiver: trust.NewReceiver(settings)}
	}
	if o.Service != "" && o.Service != p.Service {
		p = &scope.Process{Service: wire.TruncateString(o.Service, wire.MaxServiceBytes), Peers: p.Peers, Receiver: p.Receiver}
	}
	s, err := start(p, settings, &o)
	if err != nil {
		return ctx, nil, err
	}
	return scope.With(ctx, s), &Request{s}, nil
}

func start(p *scope.Process, settings *trust.Settings, o *Options) (*scope.Scope, error) {
	key := settings.SigningKey(len(o.Plan) > 0)
	if key == nil && len(o.Plan) == 0 {
		key = settings.SigningKey(true) // a fault key also permits history
	}
	if key == nil {
		return nil, ErrNoKey
	}
	ttl := o.TTL
	if ttl <= 0 {
		ttl = time.Minute
	}
	now := time.Now()
	env := &wire.Envelope{Signed: wire.Signed{History: true, Bridge: o.Bridge, HasRun: o.Run != [16]byte{}, Run: o.Run, Trace: o.Trace, KeyID: key.ID, Environment: settings.Environment}}
	env.Expires = uint32(now.Add(min(ttl, wire.MaxExpirySeconds*time.Second)).Unix())
	if len(o.Plan) > 0 {
		env.Plan = o.Plan
	}
	if env.Trace == [16]byte{} {
		env.Trace = scope.RandomTraceID()
	}
	if env.Call = o.Root; env.Call == 0 {
		env.Call = scope.RandomCallID()
	}
	var buf [256]byte
	part, err := wire.AppendSignedPart(buf[:0], &env.Signed)
	if err != nil {
		return nil, err
	}
	if len(part) > wire.MaxEnvelopeBytes {
		return nil, wire.EnvelopeTooLarge
	}
	var out [256]byte
	env.SignedBlock = string(key.Sign(out[:0], part))
	return p.NewScope(env, now), nil
}

// Trace is the trace id all envelopes of this request carry.
func (r *Request) Trace() [16]byte { return r.scope.Envelope().Trace }

// Finish ends the request and returns its history in wire form; the outermost segment is that of the starter. Calls made
// with its context afterwards carry nothing.
func (r *Request) Finish() []byte { return r.scope.Finish(r.scope.Now(), 0, "") }

// FinishHistory is Finish, decoded. An error means that a callee sent something that is not a history.
func (r *Request) FinishHistory() (*History, error) { return wire.DecodeHistory(r.Finish()) }
