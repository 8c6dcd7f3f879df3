package scope

import (
	"context"
	"testing"

	"faultloom.dev/go/message/wire"
)

// countingContext counts the lookups in a context.
type countingContext struct {
	context.Context
	lookups *int
}

func (a countingContext) Value(key any) any {
	*a.lookups++
	return a.Context.Value(key)
}

// Covers each way in which a scope can finish.
func TestContextsAreSearchedOnlyWhileAScopeIsOpen(t *testing.T) {
	before := openScopes.Load() // scopes that other tests have left open
	openScopes.Store(0)
	defer openScopes.Add(before)
	for name, answer := range map[string]func(*Scope){
		"in one piece": func(s *Scope) { s.Finish(s.Now(), 0, "") },
		"later": func(s *Scope) {
			e := s.FinishLater(s.Now(), 0)
			e.History()
		},
		"in pieces": func(s *Scope) {
			p := PieceWriter{Scope: s}
			p.LastPiece(s.Now(), 0, "", wire.MaxTrailerBytes)
		},
	} {
		times := 0
		ctx := countingContext{context.Background(), &times}
		if Current(ctx) != nil || times != 0 {
			t.Errorf("%s: no scope is open, but the context was searched %d times", name, times)
		}
		s, other := begin(t), begin(t)
		if Current(With(ctx, s)) != s || Current(ctx) != nil || times != 1 {
			t.Errorf("%s: a context's own scope is not found", name)
		}
		answer(other)
		answer(other) // the second time has no effect
		if Current(With(ctx, s)) != s {
			t.Errorf("%s: the end of one scope hides another", name)
		}
		answer(s)
		if times = 0; Current(With(ctx, s)) != nil || Current(ctx) != nil || times != 0 {
			t.Errorf("%s: no scope is open, but the context was searched %d times", name, times)
		}
	}
}
