package scope

import (
	"context"
	"sync/atomic"
)

type contextKey struct{}

// Scoped is a context that carries a scope; see With.
type Context struct {
	context.Context
	Scope *Scope
}

// Value returns the scope under its key, and anything else from the context below.
func (s *Context) Value(key any) any {
	if key == (contextKey{}) {
		return s.Scope
	}
	return s.Context.Value(key)
}

// With returns a context that carries the scope. Calls made with it, or with contexts derived from it, belong to the
// scope; calls made with any other context are left alone.
func With(ctx context.Context, s *Scope) context.Context {
	return &Context{ctx, s}
}

// live counts the scopes that have not answered yet; one that never does stays in it, which costs time and nothing else.
var openScopes atomic.Int64

// From returns the context's scope, or nil; nil also where no scope of this process has still to answer: most calls are nobody's, and
// a context of theirs has many layers to ask in vain.
func Current(ctx context.Context) *Scope {
	if openScopes.Load() == 0 {
		return nil
	}
	s, _ := ctx.Value(contextKey{}).(*Scope)
	return s
}
