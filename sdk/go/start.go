package faultloom

import (
	"context"
	"errors"
	"time"

	"faultloom.dev/go/message/scope"
	"faultloom.dev/go/message/trust"
	"faultloom.dev/go/message/wire"
)

// Options of Start. The zero value traces without faults, with the keys of this process's trust settings.
type Options struct {
	Service string          // the service that starts the request; default: this process's service
	Plan    []Fault         // faults to inject; needs a fault key
	Run     [16]byte        // the run that the request belongs to; zero: none
	Trace   [16]byte        // the trace id; zero: a random one
	Root    uint64          // the id from which all call ids are derived; 0: random. The same root gives the same ids
	Bridge  bool            // envelopes also travel in traceparent and baggage, across services with only OpenTelemetry
	TTL     time.Duration   // how long the envelope is valid, at most 10 minutes; 0: one minute
	Trust   *trust.Settings // default: those of this process
}

// ErrNoKey means that there are no trust settings, or that they have no key for this purpose.
var ErrNoKey = errors.New("faultloom: no key to sign with")

// Request is a request that Start has started.
type Request struct{ scope *scope.Scope }

// Start starts a traced request. Calls made with the returned context carry the envelope, over gRPC and over HTTP where
// the hooks are installed. Errors: ErrNoKey, or a wire.Error if the plan exceeds the format's limits. It does not
// block.
func Start(ctx context.Context, o Options) (context.Context, *Request, error) {
	p := scope.ThisProcess()
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
	env := &wire.Envelope{Signed: wire.Signed{History: true, Bridge: o.Bridge, HasRun: o.Run != [16]byte{}, Run: o.Run, Trace: o.Trace}}
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
	if err := (trust.Signer{Key: key, Environment: settings.Environment}).Sign(env); err != nil {
		return nil, err
	}
	return p.NewScope(env, now), nil
}

// Trace returns the trace id of the request's envelopes.
func (r *Request) Trace() [16]byte { return r.scope.Envelope().Trace }

// Finish ends the request and returns its encoded history, whose outermost segment is that of Options.Service. Calls
// made with its context afterwards carry nothing.
func (r *Request) Finish() []byte { return r.scope.Finish(r.scope.Now(), 0, "") }

// FinishHistory is Finish with the history decoded. An error means that a callee has sent an invalid history.
func (r *Request) FinishHistory() (*History, error) { return wire.DecodeHistory(r.Finish()) }
