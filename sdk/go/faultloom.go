// Package faultloom is the Go SDK of Faultloom: it traces a request through distributed services message by message and
// injects planned faults at exact moments, by interposing where messages are (de)serialized (3MileBeach).
//
// Most programs never import it. Built with faultloom-go instead of go, a program is hooked without a change to its
// source; by hand, import faultloom.dev/go/auto and wrap HTTP handlers with [Handler].
//
// This package has what a program may want to do itself: wrap handlers and transports, and begin requests ([Start]), as
// load generators and tests do. Without trust settings (FAULTLOOM_TRUST_FILE or FAULTLOOM_TRUST) everything is inert.
package faultloom

import (
	"context"
	"net/http"

	_ "faultloom.dev/go/message/entry/exporttls"
	"faultloom.dev/go/message/hooks/httphook"
	"faultloom.dev/go/message/scope"
	"faultloom.dev/go/message/wire"
)

// What plans and histories are made of.
type (
	Fault    = wire.Fault
	Selector = wire.Selector
	After    = wire.After
	Kind     = wire.Kind
	History  = wire.History
	Segment  = wire.Segment
	Event    = wire.Event
)

// Flush exports the histories that wait for it (FAULTLOOM_EXPORT), and returns when that is done or the context ends.
// Call it before a program ends, with a second at most: what was finished just before would be lost otherwise.
func Flush(ctx context.Context) {
	if x := scope.DefaultProcess().Entry.Exporter; x != nil {
		x.Flush(ctx)
	}
}

// Handler makes an HTTP server traceable: requests with an acceptable envelope are served within a scope, and their
// replies bring the history back. Other requests go to next untouched.
func Handler(next http.Handler) http.Handler { return httphook.Handler(next, nil) }

// Transport makes an HTTP client traceable: requests whose context belongs to a scope carry the envelope. Nil means
// http.DefaultTransport.
func Transport(base http.RoundTripper) http.RoundTripper { return httphook.Transport(base) }
