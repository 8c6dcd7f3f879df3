// Package faultloom is the Go SDK of Faultloom. It traces a request through distributed services message by message,
// and injects planned faults at exact moments, where messages are serialized and deserialized (3MileBeach).
//
// Most programs do not import it: built with faultloom-go instead of go, a program is hooked without a change to its
// source. Otherwise import faultloom.dev/go/auto and wrap HTTP handlers with [Handler].
//
// This package has what a program can do itself: wrap handlers and transports, and start traced requests ([Start]), as
// load generators and tests do. Without trust settings (FAULTLOOM_TRUST_FILE or FAULTLOOM_TRUST) the hooks do nothing.
package faultloom

import (
	"context"
	"net/http"

	_ "faultloom.dev/go/message/entry/exporttls"
	"faultloom.dev/go/message/hooks/httphook"
	"faultloom.dev/go/message/scope"
	"faultloom.dev/go/message/wire"
)

// The types of plans and histories.
type (
	Fault    = wire.Fault
	Selector = wire.Selector
	After    = wire.After
	Kind     = wire.Kind
	History  = wire.History
	Segment  = wire.Segment
	Event    = wire.Event
)

// Flush exports the queued histories (FAULTLOOM_EXPORT). It returns when that is done or the context ends. Call it
// before a program ends, with a timeout of one second at most: the last histories would be lost otherwise.
func Flush(ctx context.Context) {
	if x := scope.ThisProcess().Sampler.Exporter; x != nil {
		x.Flush(ctx)
	}
}

// Handler makes an HTTP server traceable: it serves requests with an acceptable envelope within a scope, and their
// replies carry the history. Other requests go to next unchanged.
func Handler(next http.Handler) http.Handler { return httphook.Handler(next, nil) }

// Transport makes an HTTP client traceable: requests whose context belongs to a scope carry the envelope. A nil base
// means http.DefaultTransport.
func Transport(base http.RoundTripper) http.RoundTripper { return httphook.Transport(base) }
