package scope

import "context"

type contextKey struct{}

// Scoped is a context that carries a scope; see With.
type Scoped struct {
	context.Context
	Scope *Scope
}

// Value returns the scope under its key, and anything else from the context below.
func (s *Scoped) Value(key any) any {
	if key == (contextKey{}) {
		return s.Scope
	}
	return s.Context.Value(key)
}

// With returns a context that carries the scope. Calls made with it, or with contexts derived from it, belong to the
// scope; calls made with any other context are left alone.
func With(ctx context.Context, s *Scope) context.Context {
	return &Scoped{ctx, s}
}

// From returns the context's scope, or nil.
func From(ctx context.Context) *Scope {
	s, _ := ctx.Value(contextKey{}).(*Scope)
	return s
}
