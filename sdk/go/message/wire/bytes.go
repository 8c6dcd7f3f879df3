package wire

import "unicode/utf8"

// reader decodes the primitives of the format. After a failure every further read fails, so callers check once, at the
// end.
type reader struct {
	rest   string
	failed bool
}

func (r *reader) fail() { r.failed, r.rest = true, "" }

func (r *reader) bytes(n int) string {
	if n < 0 || n > len(r.rest) {
		r.fail()
		return ""
	}
	head := r.rest[:n]
	r.rest = r.rest[n:]
	return head
}

func (r *reader) byte() byte {
	if len(r.rest) == 0 {
		r.fail()
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

// varint reads an unsigned LEB128 of at most 10 bytes, below 2^64.
func (r *reader) varint() uint64 {
	if len(r.rest) > 0 && r.rest[0] < 0x80 {
		v := uint64(r.rest[0])
		r.rest = r.rest[1:]
		return v
	}
	var value uint64
	for i := 0; i < 10; i++ {
		b := r.byte()
		if r.failed || (i == 9 && b > 1) {
			break
		}
		value |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			return value
		}
	}
	r.fail()
	return 0
}

// boundedVarint reads a varint of at most max.
func (r *reader) boundedVarint(max int) int {
	n := r.varint()
	if n > uint64(max) {
		r.fail()
		return 0
	}
	return int(n)
}

// string reads a length and that many bytes of UTF-8.
func (r *reader) string(min, max int) string {
	n := r.boundedVarint(max)
	if n < min {
		r.fail()
		return ""
	}
	s := r.bytes(n)
	if !utf8.ValidString(s) {
		r.fail()
		return ""
	}
	return s
}

func (r *reader) uint64() uint64 {
	s := r.bytes(8)
	if r.failed {
		return 0
	}
	return uint64(s[0])<<56 | uint64(s[1])<<48 | uint64(s[2])<<40 | uint64(s[3])<<32 |
		uint64(s[4])<<24 | uint64(s[5])<<16 | uint64(s[6])<<8 | uint64(s[7])
}

// AppendVarint appends an unsigned LEB128.
func AppendVarint(b []byte, v uint64) []byte {
	for v >= 0x80 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v))
}

// AppendString appends the length in bytes and the bytes.
func AppendString(b []byte, s string) []byte {
	return append(AppendVarint(b, uint64(len(s))), s...)
}

// VarintLength returns how many bytes AppendVarint appends.
func VarintLength(v uint64) int {
	n := 1
	for v >= 0x80 {
		v >>= 7
		n++
	}
	return n
}

// TruncateString shortens s to at most max bytes at a character boundary.
func TruncateString(s string, max int) string {
	if len(s) <= max {
		return s
	}
	for max > 0 && !utf8.RuneStart(s[max]) {
		max--
	}
	return s[:max]
}
