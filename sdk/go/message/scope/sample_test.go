package scope

import (
	"strings"
	"testing"

	"faultloom.dev/go/message/entry"
	"faultloom.dev/go/message/trust"
)

func TestASampledRequestGetsANewEnvelope(t *testing.T) {
	settings, err := trust.ParseSettings("environment demo\nkey fault f1 " + strings.Repeat("0b", 32) + "\nkey trace t1 " + strings.Repeat("0a", 32))
	if err != nil {
		t.Fatal(err)
	}
	p := &Process{Service: "front", Receiver: trust.NewReceiver(settings), Sampler: entry.Sampler{OneIn: 1, Bridge: true}}
	var s, next Scope
	if !p.OpenScope(&s, IncomingRequest{}) || s.ReturnsHistory() || s.hasParent {
		t.Fatal("not sampled")
	}
	c, ok := s.BeginCall(1, Call{Peer: "back", Name: "/x"})
	if !ok || !p.OpenScope(&next, IncomingRequest{Envelope: c.Envelope, HasEnvelope: true}) {
		t.Fatal("its envelope is refused")
	}
	e := next.Envelope()
	if !e.History || !e.Bridge || e.Plan != nil || e.HasRun || e.KeyID != "t1" || e.Call != c.ID || e.Trace != s.env.Trace || !next.ReturnsHistory() {
		t.Errorf("%+v", e)
	}
	if left := int64(e.Expires) - s.start.Unix(); left != 60 {
		t.Errorf("expires after %d s", left)
	}
	// a request whose envelope is refused may be sampled, and nothing of that envelope remains
	forged := []byte(c.Envelope)
	forged[5] ^= 1
	var s2 Scope
	if !p.OpenScope(&s2, IncomingRequest{Envelope: string(forged), HasEnvelope: true}) || s2.ReturnsHistory() || s2.env.Trace == s.env.Trace {
		t.Error("not sampled")
	}
}
