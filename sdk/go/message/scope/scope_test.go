package scope

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"faultloom.dev/go/message/trust"
	"faultloom.dev/go/message/wire"
)

func process(t testing.TB) *Process {
	s, err := trust.ParseSettings("environment demo")
	if err != nil {
		t.Fatal(err)
	}
	return &Process{Service: "front", Receiver: trust.NewReceiver(s)}
}

func begin(t testing.TB, plan ...wire.Fault) *Scope {
	env := &wire.Envelope{Signed: wire.Signed{History: true, Plan: plan}, Hop: wire.Hop{Call: 7}, SignedPrefix: "prefix"}
	return process(t).NewScope(env, time.Now())
}

func child(scope uint64, number uint64, bytes int) []byte {
	b := wire.AppendPrefix(wire.AppendHead(nil, wire.Version, wire.DeriveCallID(scope, number)), 0, "back", strings.Repeat("n", 100), 1)
	for len(b) < bytes {
		b = wire.AppendString(append(b, wire.SendRequest, 0, 0), strings.Repeat("x", 200))
		b = wire.AppendString(append(b, 0), strings.Repeat("y", 200))
	}
	return append(b, wire.SendResponse, 0, 0)
}

func TestGoroutinesShareAScope(t *testing.T) {
	s := begin(t, wire.Fault{Kind: wire.Status, Arg: 5, MaxFires: 10})
	var wg sync.WaitGroup
	var mu sync.Mutex
	ids, fired := map[uint64]bool{}, 0
	for g := 0; g < 20; g++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := 0; i < 50; i++ {
				c, ok := s.BeginCall(s.Now(), Call{Peer: "back", Name: fmt.Sprintf("/a/%d", g)})
				if !ok {
					t.Error("closed")
				}
				s.RecordReply(s.Now(), c.Number, CallEnd{History: child(7, c.Number, 0)})
				s.RecordReply(s.Now(), c.Number, CallEnd{Status: 99}) // a second end has no effect
				mu.Lock()
				ids[c.ID] = true
				if c.Fault != nil {
					fired++
				}
				mu.Unlock()
			}
		}()
	}
	wg.Wait()
	h, err := wire.DecodeHistory(s.Finish(s.Now(), 0, ""))
	if err != nil || len(ids) != 1000 || fired != 10 || len(h.Segment.Events) != 2001 {
		t.Errorf("%v: %d ids, %d fired, %d events", err, len(ids), fired, len(h.Segment.Events))
	}
}

func TestFinishedScopeRecordsNothing(t *testing.T) {
	s := begin(t)
	a, _ := s.BeginCall(1, Call{Peer: "b", Name: "/x"})
	b, _ := s.BeginCall(2, Call{Peer: "b", Name: "/x"})
	s.ReplyStarted(b.Number, 206)
	h, err := wire.DecodeHistory(s.Finish(9, 0, ""))
	if err != nil || len(h.Segment.Events) != 4 || !h.Segment.Events[2].Gap || h.Segment.Events[2].Status != 206 {
		t.Errorf("%+v %v", h, err)
	}
	s.RecordReply(10, a.Number, CallEnd{})
	s.ReplyStarted(a.Number, 200)
	if _, ok := s.BeginCall(11, Call{Peer: "b", Name: "/x"}); ok || s.Finish(12, 0, "") != nil {
		t.Error("a finished scope still records")
	}
}

// Events that would make the history unreadable are left out, and the segment is marked as truncated.
func TestHistoryStaysReadable(t *testing.T) {
	s := begin(t)
	for i := 0; i < 6; i++ {
		c, _ := s.BeginCall(1, Call{Peer: "b", Name: "/x"})
		s.RecordReply(1, c.Number, CallEnd{History: child(7, c.Number, 1<<20)})
	}
	b := s.Finish(2, 0, "")
	h, err := wire.DecodeHistory(b)
	if err != nil || !h.Segment.Truncated || len(b) > wire.MaxHistoryBytes || !h.Segment.Events[11].Gap {
		t.Errorf("%d bytes: %v", len(b), err)
	}
	s = begin(t)
	for i := 0; i < 60_000; i++ {
		c, _ := s.BeginCall(1, Call{Peer: "b", Name: "/x"})
		s.RecordReply(1, c.Number, CallEnd{})
	}
	if h, err := wire.DecodeHistory(s.Finish(2, 0, "")); err != nil || !h.Segment.Truncated {
		t.Error(err)
	}
	s = begin(t)
	for i := 0; i < 22_000; i++ {
		s.BeginCall(1, Call{Peer: strings.Repeat("p", 300), Name: fmt.Sprintf("/%d%s", i, strings.Repeat("n", 300))})
	}
	if h, err := wire.DecodeHistory(s.Finish(2, 0, "")); err != nil || !h.Segment.Truncated {
		t.Error(err)
	}
}

func TestNamesThatAreNotUTF8AreReplaced(t *testing.T) {
	s := begin(t)
	s.BeginCall(1, Call{Name: "/a.B/\xff", Peer: "\xc3host:1"})
	h, err := wire.DecodeHistory(s.Finish(2, 0, "GET /\xfe"))
	if err != nil {
		t.Fatal(err)
	}
	if e := h.Segment.Events[0]; e.Name != "/a.B/?" || e.Peer != "?host:1" || h.Segment.Name != "GET /?" {
		t.Errorf("%+v", h.Segment)
	}
}

func TestWaitsEndWithTheContext(t *testing.T) {
	s := begin(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if elapsed, err := s.WaitForFault(ctx, 1<<62); elapsed || err != context.Canceled {
		t.Error(elapsed, err)
	}
	if elapsed, err := s.WaitForFault(context.Background(), 0); !elapsed || err != nil {
		t.Error(elapsed, err)
	}
}

func TestWaitsEndWhenFaultsAreSwitchedOff(t *testing.T) {
	p := process(t)
	p.Receiver = trust.NewReceiver(&trust.Settings{Environment: "demo"})
	env := &wire.Envelope{Signed: wire.Signed{History: true}, Hop: wire.Hop{Call: 7}}
	if elapsed, err := p.NewScope(env, time.Now()).WaitForFault(context.Background(), MaxFaultWait); elapsed || err != nil {
		t.Error(elapsed, err)
	}
}

func TestPeersAreParsed(t *testing.T) {
	p := Process{Peers: ParsePeers("127.0.0.1:1=a, [::1]:2=b,,=c,d=,e")}
	if len(p.Peers) != 2 || p.PeerName("127.0.0.1:1") != "a" || p.PeerName("[::1]:2") != "b" || p.PeerName("x:1") != "x:1" {
		t.Error(p.Peers)
	}
}

func TestServiceNamesHaveNoControlCharacters(t *testing.T) {
	for name, want := range map[string]string{
		"front":                             "front",
		"a\x00b\x1f c\x7f\n":                "a?b? c??",
		"\xff\tb":                           "??b",
		"é\u0080":                           "é\u0080", // above ASCII, nothing is excluded
		strings.Repeat("\n", 63) + "é":      strings.Repeat("?", 63),
		strings.Repeat("\x7f", 65) + "tail": strings.Repeat("?", 64),
	} {
		got := serviceName(name)
		if got != want {
			t.Errorf("%q: %q", name, got)
		}
		history := wire.AppendString(append([]byte{1}, make([]byte, 9)...), got)
		if _, cut := wire.CutTail(wire.AppendTail(nil, append(history, 0, 0))); cut == nil {
			t.Errorf("%q: readers refuse the tail", got)
		}
	}
}

func BenchmarkScope(b *testing.B) {
	p := process(b)
	env := &wire.Envelope{Signed: wire.Signed{History: true}, Hop: wire.Hop{Call: 7}, SignedPrefix: strings.Repeat("x", 70)}
	b.ReportAllocs()
	for i := 0; i < b.N; i++ {
		s := p.NewScope(env, time.Now())
		c, _ := s.BeginCall(s.Now(), Call{Peer: "back", Name: "/shop.Back/Get", Accept: wire.AcceptField, ReceiveLimit: 4 << 20})
		s.RecordReply(s.Now(), c.Number, CallEnd{Gap: true})
		e := s.FinishLater(s.Now(), 0)
		e.AppendField(make([]byte, 0, e.FieldLength()))
	}
}
