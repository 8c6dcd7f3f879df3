package scope

import (
	"strings"
	"testing"

	"faultloom.dev/go/message/entry"
	"faultloom.dev/go/message/trust"
)

func TestEntrySettingsAreUnderstoodOrSaidAndLeftOut(t *testing.T) {
	entry.EnableTLS()
	for _, c := range []struct {
		sample, export, bridge string
		oneIn                  uint64
		exports                bool
		says                   string
	}{
		{"", "", "", 0, false, ""},
		{"1/1", "http://collector:4318/v1/traces", "on", 1, true, ""},
		{"1/1000000", "https://collector/v1/traces", "", 1_000_000, true, ""},
		{"", "http://collector:4318/v1/traces", "", 0, true, ""},
		{"1/16", "", "", 0, false, "needs FAULTLOOM_EXPORT"},
		{"1/16", "collector", "", 0, false, "FAULTLOOM_EXPORT is not an http"},
		{"1/0", "http://c/", "", 0, true, "FAULTLOOM_SAMPLE is not 1/N"},
		{"1/1000001", "http://c/", "", 0, true, "FAULTLOOM_SAMPLE is not 1/N"},
		{"0.5", "http://c/", "", 0, true, "FAULTLOOM_SAMPLE is not 1/N"},
		{"16", "http://c/", "", 0, true, "FAULTLOOM_SAMPLE is not 1/N"},
		{"1/-2", "http://c/", "", 0, true, "FAULTLOOM_SAMPLE is not 1/N"},
	} {
		var said strings.Builder
		e := ParseEntry(func(name string) string {
			return map[string]string{"FAULTLOOM_SAMPLE": c.sample, "FAULTLOOM_EXPORT": c.export, "FAULTLOOM_BRIDGE": c.bridge}[name]
		}, &said)
		if e.OneIn != c.oneIn || (e.Export != nil) != c.exports || e.Bridge != (c.bridge == "on") || !strings.Contains(said.String(), c.says) || (c.says == "") != (said.Len() == 0) {
			t.Errorf("%+v: %+v, says %q", c, e, said.String())
		}
	}
}

func TestOneInNIsDrawn(t *testing.T) {
	p := process(t)
	for _, n := range []uint64{1, 4, 16} {
		p.Entry.OneIn = n
		drawn := 0
		const tries = 64_000
		for i := 0; i < tries; i++ {
			if p.Sample() {
				drawn++
			}
		}
		// six standard deviations and more
		if want := tries / int(n); drawn < want*9/10 || drawn > want*11/10 {
			t.Errorf("1/%d: %d of %d", n, drawn, tries)
		}
	}
	if p.Entry.OneIn = 0; p.Sample() {
		t.Error("nothing should be drawn")
	}
}

func TestADrawnRequestHasAnEnvelopeOfItsOwn(t *testing.T) {
	settings, err := trust.ParseSettings("environment demo\nkey fault f1 " + strings.Repeat("0b", 32) + "\nkey trace t1 " + strings.Repeat("0a", 32))
	if err != nil {
		t.Fatal(err)
	}
	p := &Process{Service: "front", Receiver: trust.NewReceiver(settings), Entry: EntryConfig{OneIn: 1, Bridge: true}}
	var s, next Scope
	if !p.OpenScope(&s, IncomingRequest{}) || s.ReturnsHistory() || s.hasParent {
		t.Fatal("not drawn")
	}
	c, ok := s.BeginCall(1, Call{Peer: "back", Name: "/x"})
	if !ok || !p.OpenScope(&next, IncomingRequest{Envelope: c.Envelope}) {
		t.Fatal("its envelope is refused")
	}
	e := next.Envelope()
	if !e.History || !e.Bridge || e.Plan != nil || e.HasRun || e.KeyID != "t1" || e.Call != c.ID || e.Trace != s.env.Trace || !next.ReturnsHistory() {
		t.Errorf("%+v", e)
	}
	if left := int64(e.Expires) - s.start.Unix(); left != 60 {
		t.Errorf("expires after %d s", left)
	}
	// one whose envelope is refused may be drawn, too; what the envelope says is forgotten
	forged := []byte(c.Envelope)
	forged[5] ^= 1
	var s2 Scope
	if !p.OpenScope(&s2, IncomingRequest{Envelope: string(forged)}) || s2.ReturnsHistory() || s2.env.Trace == s.env.Trace {
		t.Error("not drawn")
	}
}
