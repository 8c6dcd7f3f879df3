package scope

import (
	"context"
	"testing"

	"faultloom.dev/go/message/wire"
)

// asked counts what a context is asked for.
type asked struct {
	context.Context
	times *int
}

func (a asked) Value(key any) any {
	*a.times++
	return a.Context.Value(key)
}

// Each way in which a scope can answer.
func TestContextsAreSearchedOnlyWhileAScopeHasStillToAnswer(t *testing.T) {
	before := openScopes.Load() // scopes of other tests that were never to answer
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
		ctx := asked{context.Background(), &times}
		if Current(ctx) != nil || times != 0 {
			t.Errorf("%s: nobody has a scope, and a context was asked %d times", name, times)
		}
		s, other := begin(t), begin(t)
		if Current(With(ctx, s)) != s || Current(ctx) != nil || times != 1 {
			t.Errorf("%s: a context's own scope is not found", name)
		}
		answer(other)
		answer(other) // a second time is none
		if Current(With(ctx, s)) != s {
			t.Errorf("%s: the end of one scope hides another", name)
		}
		answer(s)
		if times = 0; Current(With(ctx, s)) != nil || Current(ctx) != nil || times != 0 {
			t.Errorf("%s: all have answered, and a context was asked %d times", name, times)
		}
	}
}
