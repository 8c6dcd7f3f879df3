package wire

import (
	"encoding/base64"
	"encoding/hex"
	"strings"
)

// W3C headers, which services with only OpenTelemetry propagate.
const (
	TraceparentKey  = "traceparent"
	BaggageKey      = "baggage"
	baggageKey      = "faultloom"
	maxBaggageBytes = 8192
)

// Traceparent is the content of a traceparent header.
type Traceparent struct {
	Trace  [16]byte
	Parent uint64
}

// ParseTraceparent parses a traceparent: version-trace-parent-flags. ok is false if it is not valid.
func ParseTraceparent(text string) (t Traceparent, ok bool) {
	if len(text) < 55 || text[2] != '-' || text[35] != '-' || text[52] != '-' || !isLowerHex(text[:2]) || !isLowerHex(text[53:55]) ||
		!isLowerHex(text[3:35]) || !isLowerHex(text[36:52]) {
		return t, false
	}
	version := text[:2]
	if version == "ff" || (len(text) > 55 && (version == "00" || text[55] != '-')) {
		return t, false
	}
	var parent [8]byte
	hex.Decode(t.Trace[:], []byte(text[3:35]))
	hex.Decode(parent[:], []byte(text[36:52]))
	r := reader{rest: string(parent[:])}
	t.Parent = r.uint64()
	return t, t.Parent != 0 && t.Trace != [16]byte{}
}

func isLowerHex(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// String formats the header with version 00 and the sampled flag.
func (t Traceparent) String() string {
	b := append(make([]byte, 0, 55), "00-"...)
	b = append(hex.AppendEncode(b, t.Trace[:]), '-')
	for shift := 60; shift >= 0; shift -= 4 {
		b = append(b, "0123456789abcdef"[t.Parent>>shift&15])
	}
	return string(append(b, "-01"...))
}

// InjectBridge returns both headers of an outgoing request. traceparent and baggage are the values that the request
// has, or empty. An empty baggage in the result means no header.
func InjectBridge(traceparent, baggage, envelope string, own Traceparent) (string, string) {
	if traceparent == "" {
		traceparent = own.String()
	}
	var out strings.Builder
	for rest, more := baggage, true; more; {
		var m string
		m, rest, more = strings.Cut(rest, ",")
		m = strings.Trim(m, blanks)
		if key, _, ok := parseMember(m); m == "" || (ok && key == baggageKey) {
			continue
		}
		if out.Len() > 0 {
			out.WriteByte(',')
		}
		out.WriteString(m)
	}
	kept := out.Len()
	if kept > 0 {
		out.WriteByte(',')
	}
	out.WriteString(baggageKey + "=" + base64.RawURLEncoding.EncodeToString([]byte(envelope)))
	if out.Len() > maxBaggageBytes {
		return traceparent, out.String()[:kept]
	}
	return traceparent, out.String()
}

// MayContainBridge reports whether baggage headers may contain an envelope. It is a cheap check before ExtractBridge.
func MayContainBridge(values []string) bool {
	for _, v := range values {
		if strings.Contains(v, baggageKey) {
			return true
		}
	}
	return false
}

// ExtractBridge finds the envelope of a request without the usual carrier: its text in the baggage, and the call id,
// which is the parent id of the traceparent.
func ExtractBridge(traceparent, baggage string) (envelope string, call uint64, ok bool) {
	for rest, more := baggage, true; more; {
		var m string
		m, rest, more = strings.Cut(rest, ",")
		if key, value, found := parseMember(m); found && key == baggageKey {
			t, ok := ParseTraceparent(traceparent)
			return value, t.Parent, ok
		}
	}
	return "", 0, false
}

const blanks = " \t"

// parseMember splits a member of a baggage, without its properties. ok is false if it has no key.
func parseMember(m string) (key, value string, ok bool) {
	m, _, _ = strings.Cut(m, ";")
	key, value, ok = strings.Cut(m, "=")
	return strings.Trim(key, blanks), strings.Trim(value, blanks), ok
}
