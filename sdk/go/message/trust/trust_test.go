package trust

import (
	"encoding/base64"
	"strings"
	"testing"

	"faultloom.dev/go/message/wire"
)

const secret = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

func TestInvalidLineRefusesAllSettings(t *testing.T) {
	good := []string{
		"environment demo",
		"# comment\n\n environment  demo \n\tkey trace t1 " + secret + "\r\nfaults off\n",
		"environment demo;key fault f1 " + strings.ToUpper(secret) + ";faults on",
	}
	for _, text := range good {
		if s, err := ParseSettings(text); err != nil || s.Environment != "demo" || s.FaultsEnabled == strings.Contains(text, "off") {
			t.Errorf("%q: %v", text, err)
		}
	}
	for text, line := range map[string]string{
		"":                        "no environment",
		"faults on":               "no environment",
		"environment a\nfaults":   "line 2",
		"environment a;;nonsense": "line 3",
		"environment a b":         "line 1",
		"environment":             "line 1",
		"environment a\nkey trace t1 " + secret[:60]:                         "line 2",
		"environment a\nkey trace t1 " + secret + "00":                       "line 2",
		"environment a\nkey other t1 " + secret:                              "line 2",
		"environment a\nkey trace " + strings.Repeat("x", 33) + " " + secret: "line 2",
		"environment a\nkey trace t1 zz" + secret[2:]:                        "line 2",
		"environment a\nfaults maybe":                                        "line 2",
		"environment " + strings.Repeat("e", 65):                             "line 1",
	} {
		_, err := ParseSettings(text)
		if err == nil || !strings.Contains(err.Error(), line) || strings.Contains(err.Error(), secret[:8]) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func envelope(t testing.TB, s *Settings, call uint64) string {
	t.Helper()
	part, err := wire.AppendSignedPart(nil, &wire.Signed{Expires: 1060, KeyID: "f1", Environment: "demo", Plan: []wire.Fault{{Kind: wire.Reset}}})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := wire.AssembleEnvelope(string(s.Key("f1").Sign(nil, part)), call, 0, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestReplayCacheIsBounded(t *testing.T) {
	s, err := ParseSettings("environment demo\nkey fault f1 " + secret)
	if err != nil {
		t.Fatal(err)
	}
	r := NewReceiver(s)
	accept := func(call uint64, now int64) error {
		_, err := r.Accept(new(wire.Envelope), envelope(t, s, call), now, 0)
		return err
	}
	for call := uint64(1); call <= maxReplayEntries; call++ {
		if err := accept(call, 1000); err != nil {
			t.Fatal(call, err)
		}
	}
	if err := accept(1, 1000); err != wire.Replayed { // a replay removes no other entry
		t.Error(err)
	}
	if err := accept(maxReplayEntries+1, 1000); err != nil {
		t.Error(err)
	}
	if err := accept(1, 1000); err != nil { // the new entry has replaced the oldest
		t.Error(err)
	}
	if err := accept(maxReplayEntries, 1000); err != wire.Replayed {
		t.Error(err)
	}
	if n := len(r.replays.expiries); n > maxReplayEntries {
		t.Errorf("%d entries", n)
	}
	if err := accept(7, 1060); err != wire.Expired {
		t.Error(err)
	}
	r.replays.admit(replayKey{call: 1}, 5000, 2000)
	if n := len(r.replays.expiries); n != 1 {
		t.Errorf("%d entries after all have expired", n)
	}
}

func TestEnvelopeTextIsCanonical(t *testing.T) {
	s, _ := ParseSettings("environment demo\nkey fault f1 " + secret)
	text := base64.RawURLEncoding.EncodeToString([]byte(envelope(t, s, 9)))
	for _, bad := range []string{text + "=", text + "\n", " " + text, text[:5] + "\r\n" + text[5:], strings.Repeat("A", 2732)} {
		if _, err := NewReceiver(s).AcceptHeader(new(wire.Envelope), bad, 1000); err == nil {
			t.Errorf("accepted %q", bad)
		}
	}
	if _, err := NewReceiver(s).AcceptHeader(new(wire.Envelope), text, 1000); err != nil {
		t.Error(err)
	}
}

func FuzzSettings(f *testing.F) {
	f.Add("environment demo\nkey trace t1 " + secret + "\nfaults off;# x")
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := ParseSettings(text); (err == nil) == (s == nil) {
			t.Error(s, err)
		}
	})
}

func FuzzAccept(f *testing.F) {
	s, err := ParseSettings("environment demo\nkey fault f1 " + secret)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(envelope(f, s, 9))
	r := NewReceiver(s)
	f.Fuzz(func(t *testing.T, raw string) {
		e := new(wire.Envelope)
		_, err := r.Accept(e, raw, 1000, 0)
		if err == nil && !s.Key("f1").verify(raw[2:2+int(raw[1])], raw[2+int(raw[1]):][:16]) && len(e.SignedPrefix) < 130 {
			t.Errorf("%x was accepted", raw)
		}
	})
}

// A forged envelope costs as much as a valid one: its signature must be computed.
func BenchmarkAcceptForged(b *testing.B) {
	s, _ := ParseSettings("environment demo\nkey trace t1 " + secret)
	part, _ := wire.AppendSignedPart(nil, &wire.Signed{History: true, Expires: 1060, KeyID: "t1", Environment: "demo"})
	forged := s.Key("t1").Sign(nil, part)
	forged[len(forged)-1] ^= 1
	raw, _ := wire.AssembleEnvelope(string(forged), 1, 1, 4<<20, nil)
	r := NewReceiver(s)
	b.ReportAllocs()
	for i := 0; i < b.N; i++ {
		if _, err := r.Accept(new(wire.Envelope), raw, 1000, 0); err != wire.BadSignature {
			b.Fatal(err)
		}
	}
}

func BenchmarkAccept(b *testing.B) {
	s, _ := ParseSettings("environment demo\nkey trace t1 " + secret)
	part, _ := wire.AppendSignedPart(nil, &wire.Signed{History: true, Expires: 1060, KeyID: "t1", Environment: "demo"})
	raw, _ := wire.AssembleEnvelope(string(s.Key("t1").Sign(nil, part)), 1, 1, 4<<20, nil)
	r := NewReceiver(s)
	b.ReportAllocs()
	for i := 0; i < b.N; i++ {
		if _, err := r.Accept(new(wire.Envelope), raw, 1000, 0); err != nil {
			b.Fatal(err)
		}
	}
}
