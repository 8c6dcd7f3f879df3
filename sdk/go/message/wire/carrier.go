package wire

import (
	"encoding/binary"
	"net/http"
	"strings"
)

// Limits and markers of the carriers of a history.
const (
	FieldNumber     = 333_000_333
	MaxHeaderBytes  = 768  // history in an HTTP header, before base64
	MaxTrailerBytes = 3072 // history in a gRPC trailer, before base64
	Magic           = "flm\x01"
	fieldTag        = "\xea\xe8\xa5\xf6\x09" // FieldNumber << 3 | 2 as a varint
	suffixBytes     = 8                      // u32 length, magic
)

// AppendField appends the reply field to a serialized protobuf message.
//
//	tag (5 bytes)  varint length  history  u32 BE: length of the whole field, tag included  "flm" 0x01
func AppendField(message, history []byte) []byte {
	message = append(AppendFieldStart(message, len(history)), history...)
	return AppendFieldEnd(message, FieldLength(len(history)))
}

// AppendFieldStart appends the bytes before a history of the given length.
func AppendFieldStart(b []byte, history int) []byte {
	return AppendVarint(append(b, fieldTag...), uint64(history+suffixBytes))
}

// AppendFieldEnd appends the bytes after the history. field is the length of the whole field (FieldLength).
func AppendFieldEnd(b []byte, field int) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(field)), Magic...)
}

// FieldLength returns how many bytes AppendField adds.
func FieldLength(history int) int {
	return len(fieldTag) + VarintLength(uint64(history+suffixBytes)) + history + suffixBytes
}

// trailingLength returns the length before the magic, or -1 if b does not end with the magic.
func trailingLength(b []byte) int {
	n := len(b)
	if n < suffixBytes || string(b[n-4:]) != Magic {
		return -1
	}
	return int(binary.BigEndian.Uint32(b[n-8:]))
}

// CutField splits b before the reply field. history is nil if there is no field. Both results alias b.
func CutField(b []byte) (message, history []byte) {
	n := trailingLength(b)
	if n < 0 || n > len(b) {
		return b, nil
	}
	field := b[len(b)-n:]
	if len(field) < len(fieldTag) || string(field[:len(fieldTag)]) != fieldTag {
		return b, nil
	}
	rest := field[len(fieldTag):]
	size, width := binary.Uvarint(rest)
	if width <= 0 || size < suffixBytes || uint64(len(rest)-width) != size {
		return b, nil
	}
	return b[:len(b)-n], rest[width : len(rest)-suffixBytes]
}

// AppendTail appends the tail to an HTTP body: history, u32 BE: its length, "flm" 0x01.
func AppendTail(body, history []byte) []byte {
	return append(binary.BigEndian.AppendUint32(append(body, history...), uint32(len(history))), Magic...)
}

// TailLength returns how many bytes AppendTail adds.
func TailLength(history int) int { return history + suffixBytes }

// CutTail splits b before the tail. history is nil if there is no tail: what does not begin like a history is part of
// the body, whatever its end looks like. Both results alias b.
func CutTail(b []byte) (body, history []byte) {
	n := trailingLength(b)
	if n < 0 || n > len(b)-suffixBytes {
		return b, nil
	}
	at := len(b) - suffixBytes - n
	if history = b[at : len(b)-suffixBytes]; !canBeginTail(history) {
		return b, nil
	}
	return b[:at], history
}

// canBeginTail reports whether these bytes can be the history in a tail: small enough, version 1 or 2, a call id, and
// a segment that can be read up to its events. Readers search for the start of a tail by its first bytes, so flags that
// HTTP does not use and control characters in the service are excluded.
func canBeginTail(b []byte) bool {
	_, segment, err := SplitHistory(b)
	if err != nil || len(segment) == 0 || segment[0]&SegmentTakesField != 0 {
		return false
	}
	r := reader{rest: string(segment[:min(len(segment), maxPrefixBytes)])}
	service := decodePrefix(&r).Service
	return !r.failed && strings.IndexFunc(service, func(c rune) bool { return c < 0x20 || c == 0x7f }) < 0
}

// LastValue returns the value of one of our headers that may occur more than once: the last member of its last line; ""
// without lines. Lines of the same name are one list, which servers and proxies may join with commas (RFC 9110 §5.3).
func LastValue(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	last := lines[len(lines)-1]
	return strings.Trim(last[strings.LastIndexByte(last, ',')+1:], " \t")
}

// MayHaveTail reports whether a reply with this HTTP status may have a tail. An announcement on any other counts for
// nothing.
func MayHaveTail(status int) bool {
	return status == http.StatusOK || status >= 400
}

// AllowsTail reports whether an HTTP reply may carry a tail, provided that the handler completes.
func AllowsTail(accept Accept, method string, request http.Header, status int, reply http.Header) bool {
	if accept&AcceptTail == 0 || !MayHaveTail(status) || method == http.MethodHead || IsFramed(reply) {
		return false
	}
	for _, encoding := range reply["Content-Encoding"] {
		if !strings.EqualFold(encoding, "identity") {
			return false
		}
	}
	for _, name := range [...]string{"Content-Range", "Digest", "Content-Digest", "Repr-Digest", "Content-Md5", "Trailer", "Upgrade"} {
		if _, ok := reply[name]; ok {
			return false
		}
	}
	_, ranged := request["Range"]
	_, upgrade := request["Upgrade"]
	return !ranged && !upgrade
}

// IsStreamed reports whether a reply that is sent in parts is a stream of items, such as events. Such a reply gets no
// tail: the position of a tail is certain only at the end, so a reader may hold bytes back until then, and items would
// be late.
func IsStreamed(reply http.Header) bool {
	kind, _, _ := strings.Cut(reply.Get("Content-Type"), ";")
	switch strings.ToLower(strings.TrimSpace(kind)) {
	case "text/event-stream", "application/x-ndjson", "application/ndjson", "application/jsonl", "application/json-seq",
		"application/stream+json", "multipart/x-mixed-replace":
		return true
	}
	return strings.EqualFold(strings.TrimSpace(reply.Get("X-Accel-Buffering")), "no")
}

// CorruptBody overwrites the second half of a body with 0xFF, in place.
func CorruptBody(body []byte) {
	for i := len(body) / 2; i < len(body); i++ {
		body[i] = 0xFF
	}
}
