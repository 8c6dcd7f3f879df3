package scope

import (
	"context"
	"net/http"
	"sync/atomic"
)

type contextKey struct{}

// Context is a context that carries a scope; see With.
type Context struct {
	context.Context
	Scope *Scope
}

// Value returns the scope for its key, and the values of the parent context for other keys.
func (s *Context) Value(key any) any {
	if key == (contextKey{}) {
		return s.Scope
	}
	return s.Context.Value(key)
}

// With returns a context that carries the scope. Calls made with it, or with contexts derived from it, belong to the
// scope. Calls made with any other context are left alone.
func With(ctx context.Context, s *Scope) context.Context {
	return &Context{ctx, s}
}

// openScopes counts the scopes that have not finished. A scope that never finishes stays counted, which only costs
// time.
var openScopes atomic.Int64

// Current returns the scope of a context, or nil. While no scope of this process is open it does not search the
// context: most calls belong to no scope, and their contexts have many layers.
func Current(ctx context.Context) *Scope {
	if openScopes.Load() == 0 {
		return nil
	}
	s, _ := ctx.Value(contextKey{}).(*Scope)
	return s
}

// Origin is where the scope of a call comes from.
type Origin int

const (
	// NoOrigin means that no scope is open, or that the call belongs to a request without one. It is left alone.
	NoOrigin Origin = iota
	// FromContext is the scope of the call's context.
	FromContext
	// FromGoroutine is the scope of the goroutine, because the context belongs to no request; see Enter.
	FromGoroutine
	// Lost means that neither belongs to a request, while a scope is open. The call may belong to it; see CountLost.
	Lost
)

// ForCall returns the scope of a call that is sent with this context, and where it comes from. The scope is nil if the
// call is not to be recorded in one.
func ForCall(ctx context.Context) (*Scope, Origin) {
	if openScopes.Load() == 0 {
		return nil, NoOrigin
	}
	return forCall(ctx)
}

func forCall(ctx context.Context) (*Scope, Origin) {
	if s, _ := ctx.Value(contextKey{}).(*Scope); s != nil {
		return s, FromContext
	}
	if belongsToRequest(ctx) {
		return nil, NoOrigin
	}
	if s := goroutineScope(); s != nil {
		return s, FromGoroutine
	}
	return nil, Lost
}

// belongsToRequest reports whether a context without a scope is that of a request that a server handles.
func belongsToRequest(ctx context.Context) bool {
	if ctx.Value(http.ServerContextKey) != nil || ctx.Value(countedKey{}) != nil {
		return true
	}
	isRequest := requestTest.Load()
	return isRequest != nil && (*isRequest)(ctx)
}

// requestTest recognizes the contexts of requests that are not net/http's.
var requestTest atomic.Pointer[func(context.Context) bool]

// SetRequestTest sets a function that reports whether a context belongs to a request of another library than net/http.
func SetRequestTest(isRequest func(context.Context) bool) { requestTest.Store(&isRequest) }

type countedKey struct{}

// WithCounted returns a context for a call that was counted as lost. With two hooks in one client, the inner one leaves
// it alone.
func WithCounted(ctx context.Context) context.Context {
	return context.WithValue(ctx, countedKey{}, true)
}
