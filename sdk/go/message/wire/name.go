package wire

import "strings"

// MaxNameBytes bounds the names of calls and peers in a history.
const MaxNameBytes = 200

// RawHTTPName returns the name that local selectors match: "METHOD /path" without query and fragment.
func RawHTTPName(method, target string) string {
	if i := strings.IndexAny(target, "?#"); i >= 0 {
		target = target[:i]
	}
	if target == "" {
		target = "/"
	}
	return method + " " + target
}

// NormalizeHTTPName returns the name that is recorded: the variable parts of a raw HTTP name become {id}, and the name
// is truncated to 200 bytes.
func NormalizeHTTPName(raw string) string {
	first := strings.IndexByte(raw, '/')
	if first < 0 {
		return TruncateString(raw, MaxNameBytes)
	}
	var out strings.Builder
	changed := false
	for at := first; at < len(raw); {
		end := strings.IndexByte(raw[at+1:], '/')
		if end < 0 {
			end = len(raw)
		} else {
			end += at + 1
		}
		if part := raw[at+1 : end]; isVariablePart(part) {
			if !changed {
				changed = true
				out.WriteString(raw[:at])
			}
			out.WriteString("/{id}")
		} else if changed {
			out.WriteString(raw[at:end])
		}
		at = end
	}
	if changed {
		raw = out.String()
	}
	return TruncateString(raw, MaxNameBytes)
}

// isVariablePart reports whether a part is all digits, a UUID, at least 8 hex digits with a decimal digit among them,
// or at least 20 bytes with a decimal digit.
func isVariablePart(part string) bool {
	digits, hexes := 0, 0
	for i := 0; i < len(part); i++ {
		switch c := part[i]; {
		case c >= '0' && c <= '9':
			digits++
		case c >= 'a' && c <= 'f', c >= 'A' && c <= 'F':
			hexes++
		}
	}
	all := digits + hexes
	if digits > 0 && (digits == len(part) || len(part) >= 20 || (len(part) >= 8 && all == len(part))) {
		return true
	}
	return len(part) == 36 && all == 32 && part[8] == '-' && part[13] == '-' && part[18] == '-' && part[23] == '-'
}
