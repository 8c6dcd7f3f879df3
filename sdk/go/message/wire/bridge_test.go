package wire

import (
	"strings"
	"testing"
)

const someParent = "00-0102030405060708090a0b0c0d0e0f10-1112131415161718-01"

func TestTraceparents(t *testing.T) {
	for text, good := range map[string]bool{
		someParent:                   true,
		"cc" + someParent[2:]:        true,
		"cc" + someParent[2:] + "-x": true,
		"":                           false,
		"ff" + someParent[2:]:        false,
		someParent + "-x":            false,
		"cc" + someParent[2:] + "x":  false,
		someParent[:54]:              false,
		strings.ToUpper(someParent):  false,
		"0x" + someParent[2:]:        false,
		" " + someParent[1:]:         false,
		"00-" + strings.Repeat("0", 32) + someParent[35:]: false,
		someParent[:36] + strings.Repeat("0", 16) + "-01": false,
	} {
		p, ok := ParseTraceparent(text)
		if ok != good || (ok && (p.Parent != 0x1112131415161718 || p.Trace[15] != 16)) {
			t.Errorf("%q: %v %+v", text, ok, p)
		}
		if ok && strings.HasPrefix(text, "00") && p.String() != text {
			t.Errorf("%q became %q", text, p)
		}
	}
}

func TestOtherBaggageIsKept(t *testing.T) {
	own, _ := ParseTraceparent(someParent)
	for _, c := range []struct{ traceparent, baggage, want string }{
		{"", "", "faultloom=ZW52"},
		{"theirs", "user=7;p=1, theme = dark", "user=7;p=1,theme = dark,faultloom=ZW52"},
		{"", "faultloom=old,a=b, faultloom =older;p", "a=b,faultloom=ZW52"},
		{"", "a=" + strings.Repeat("x", 8192-2-15), "a=" + strings.Repeat("x", 8192-2-15) + ",faultloom=ZW52"},
		{"", "a=" + strings.Repeat("x", 8192-2-14) + ",faultloom=old", "a=" + strings.Repeat("x", 8192-2-14)},
	} {
		traceparent, baggage := InjectBridge(c.traceparent, c.baggage, "env", own)
		if baggage != c.want || (c.traceparent == "" && traceparent != someParent) || (c.traceparent != "" && traceparent != c.traceparent) {
			t.Errorf("%.60q: %q %.60q", c.baggage, traceparent, baggage)
		}
		if text, call, ok := ExtractBridge(someParent, baggage); ok != strings.Contains(c.want, "ZW52") || (ok && (text != "ZW52" || call != own.Parent)) {
			t.Errorf("%.60q was extracted as %q %x", baggage, text, call)
		}
	}
	if _, _, ok := ExtractBridge("nonsense", "faultloom=ZW52"); ok {
		t.Error("without a traceparent the call ID is missing")
	}
}

func FuzzBridge(f *testing.F) {
	f.Add(someParent, "a=b;p, faultloom = old", "envelope")
	f.Fuzz(func(t *testing.T, traceparent, baggage, envelope string) {
		ExtractBridge(traceparent, baggage)
		own, _ := ParseTraceparent(someParent)
		sent, out := InjectBridge("", baggage, envelope, own)
		text, call, ok := ExtractBridge(sent, out)
		if fits := strings.Contains(out, "faultloom="+text); ok && (!fits || call != own.Parent) {
			t.Errorf("%q became %q", baggage, out)
		}
		if !ok && len(out)+len(envelope)*2+20 < maxBaggageBytes {
			t.Errorf("%q became %q: lost", baggage, out)
		}
		if again, _, _ := ExtractBridge(sent, out); MayContainBridge([]string{out}) != strings.Contains(out, "faultloom") || again != text {
			t.Error(out)
		}
	})
}
