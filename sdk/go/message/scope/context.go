package scope

import "context"

type contextKey struct{}

// With returns a context that carries the scope. Calls made with it, or with contexts derived from it, belong to the
// scope; calls made with any other context are left alone.
func With(ctx context.Context, s *Scope) context.Context {
	return context.WithValue(ctx, contextKey{}, s)
}

// From returns the context's scope, or nil.
func From(ctx context.Context) *Scope {
	s, _ := ctx.Value(contextKey{}).(*Scope)
	return s
}
