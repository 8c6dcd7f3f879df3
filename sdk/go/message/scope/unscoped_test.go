package scope

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"faultloom.dev/go/message/wire"
)

// unscoped returns the calls without a scope in a finished history.
func unscoped(t *testing.T, s *Scope) (calls []string, version byte) {
	t.Helper()
	b := s.Finish(s.Now(), 200, "")
	h, err := wire.DecodeHistory(b)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range h.Segment.Events {
		if e.Kind == wire.UnscopedCalls {
			calls = append(calls, fmt.Sprintf("%d %s %s", e.Count, e.Name, e.Peer))
		}
	}
	return calls, b[0]
}

// lost is one call site.
func lost(isHTTP bool, authority, name string) {
	CountLost(Call{HTTP: isHTTP, Peer: authority, Name: name})
}

func TestScopesRecordTheUnscopedCallsOfTheirTime(t *testing.T) {
	lost(true, "b:80", "GET /before")
	first := begin(t)
	lost(true, "b:80", "GET /products/17")
	second := begin(t)
	lost(true, "b:80", "GET /products/18")
	lost(false, "c:1", "/shop.Cart/Get")
	if calls, version := unscoped(t, first); !slices.Equal(calls, []string{"2 GET /products/{id} b:80", "1 /shop.Cart/Get c:1"}) || version != wire.Version2 {
		t.Error(version, calls)
	}
	if calls, version := unscoped(t, second); !slices.Equal(calls, []string{"1 GET /products/{id} b:80", "1 /shop.Cart/Get c:1"}) || version != wire.Version2 {
		t.Error(version, calls)
	}
	if calls, version := unscoped(t, begin(t)); calls != nil || version != wire.Version {
		t.Error(version, calls)
	}
}

func TestTheLastUnscopedCallsAreStored(t *testing.T) {
	s := begin(t)
	for range 10 {
		lost(true, "b:80", "GET /early")
	}
	for range maxUnscopedCalls {
		lost(true, "b:80", "GET /late")
	}
	if calls, _ := unscoped(t, s); !slices.Equal(calls, []string{"64 GET /late b:80", "10 other other"}) {
		t.Error(calls)
	}
}

func TestOtherScopesCountInheritedCalls(t *testing.T) {
	others := openScopes.Swap(0) // that other tests have left open
	defer openScopes.Add(others)
	inherit := func(s *Scope, path string) {
		t.Helper()
		if _, ok := s.BeginInheritedCall(s.Now(), Call{HTTP: true, Peer: "b", Name: "GET /" + path}); !ok {
			t.Fatal(path)
		}
	}
	first := begin(t)
	inherit(first, "alone/17")
	second := begin(t)
	inherit(first, "both/17")
	inherit(first, "both/18")
	inherit(second, "own")
	third := begin(t)
	first.BeginCall(first.Now(), Call{HTTP: true, Peer: "b", Name: "GET /context"})
	if calls, _ := unscoped(t, third); calls != nil {
		t.Error(calls)
	}
	if calls, _ := unscoped(t, second); !slices.Equal(calls, []string{"2 GET /both/{id} b"}) {
		t.Error(calls)
	}
	if calls, _ := unscoped(t, first); !slices.Equal(calls, []string{"1 GET /own b"}) {
		t.Error(calls)
	}
	first, second = begin(t), begin(t)
	for range maxUnscopedCalls {
		inherit(first, "early")
	}
	inherit(second, "late")
	for range 10 {
		inherit(first, "late")
	}
	if calls, _ := unscoped(t, first); !slices.Equal(calls, []string{"1 GET /late b"}) {
		t.Error(calls)
	}
	if calls, _ := unscoped(t, second); !slices.Equal(calls, []string{"53 GET /early b", "10 GET /late b", "11 other other"}) {
		t.Error(calls)
	}
}

func TestOriginOfCalls(t *testing.T) {
	open := openScopes.Load()
	origin := func(ctx context.Context, want Origin) {
		t.Helper()
		if _, got := ForCall(ctx); got != want {
			t.Errorf("origin %d, want %d", got, want)
		}
	}
	if open == 0 {
		origin(context.Background(), NoOrigin)
	}
	s := begin(t)
	ctx := With(context.Background(), s)
	request := context.WithValue(context.Background(), http.ServerContextKey, new(http.Server))
	origin(ctx, FromContext)
	origin(context.Background(), Lost)
	origin(request, NoOrigin)
	origin(WithCounted(context.Background()), NoOrigin)
	other := begin(t)
	s.Finish(s.Now(), 200, "")
	origin(ctx, FromContext) // its request has been answered
	other.Leave(other.Enter())
	if openScopes.Load() != open || other.Finish(other.Now(), 200, "") != nil {
		t.Error("a scope is open after its handler has panicked")
	}
}
