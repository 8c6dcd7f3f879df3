package scope

import (
	"context"
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
