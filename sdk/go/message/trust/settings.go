// Package trust decides which envelopes a service accepts. It holds the environment's keys, reads them again when their
// file changes, runs the checks of the format in their order, and refuses replays of plans.
//
// An SDK without settings is inactive: it ignores envelopes and does not change replies.
package trust

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"strings"
	"sync"

	"faultloom.dev/go/message/wire"
)

// KeyBytes is the length of a key.
const KeyBytes = 32

// Settings are the contents of one trust file. They are immutable; a changed file is parsed into new settings.
type Settings struct {
	Environment   string
	FaultsEnabled bool // the switch: false disables every fault at this service
	keys          []*Key
}

// Key signs and verifies. Safe for concurrent use.
type Key struct {
	ID    string
	Fault bool // a fault key, which may sign plans; else a trace key
	macs  sync.Pool
}

// mac keeps the keyed state of HMAC, which costs more to create than a signature.
type mac struct {
	hash hash.Hash
	sum  [sha256.Size]byte
	buf  [len(wire.SignatureDomain) + wire.MaxEnvelopeBytes]byte
}

// NewKey returns a key with a secret of 32 bytes.
func NewKey(id string, fault bool, secret []byte) (*Key, error) {
	if len(secret) != KeyBytes || id == "" || len(id) > 32 {
		return nil, fmt.Errorf("a key has %d bytes and an id of 1 to 32", KeyBytes)
	}
	secret = append([]byte(nil), secret...)
	k := &Key{ID: id, Fault: fault}
	k.macs.New = func() any {
		m := &mac{hash: hmac.New(sha256.New, secret)}
		copy(m.buf[:], wire.SignatureDomain)
		return m
	}
	return k, nil
}

func (m *mac) sign(part string) []byte {
	n := copy(m.buf[len(wire.SignatureDomain):], part)
	m.hash.Reset()
	m.hash.Write(m.buf[:len(wire.SignatureDomain)+n])
	return m.hash.Sum(m.sum[:0])[:wire.SignatureBytes]
}

// Sign appends the signed prefix of an envelope: version byte, the signed part (see wire.AppendSignedPart), signature.
func (k *Key) Sign(out, part []byte) []byte {
	m := k.macs.Get().(*mac)
	out = wire.AppendSignedPrefix(out, part, m.sign(string(part)))
	k.macs.Put(m)
	return out
}

// verify compares in constant time.
func (k *Key) verify(part, signature string) bool {
	m := k.macs.Get().(*mac)
	sum := m.sign(part)
	var diff byte
	for i := range sum {
		diff |= sum[i] ^ signature[i]
	}
	k.macs.Put(m)
	return diff == 0
}

// Key returns the key with an id, or nil.
func (s *Settings) Key(id string) *Key {
	for _, k := range s.keys {
		if k.ID == id {
			return k
		}
	}
	return nil
}

// SigningKey returns the first fault key or the first trace key, or nil.
func (s *Settings) SigningKey(fault bool) *Key {
	for _, k := range s.keys {
		if k.Fault == fault {
			return k
		}
	}
	return nil
}

// ParseSettings reads the text form, with line ends or ';' between the lines. An error names the line and never a key.
func ParseSettings(text string) (*Settings, error) {
	s := &Settings{FaultsEnabled: true}
	for i, line := range strings.Split(strings.ReplaceAll(text, ";", "\n"), "\n") {
		if err := s.parseLine(strings.Fields(line)); err != nil {
			return nil, fmt.Errorf("line %d of the trust settings: %w", i+1, err)
		}
	}
	if s.Environment == "" {
		return nil, fmt.Errorf("no environment in the trust settings")
	}
	return s, nil
}

func (s *Settings) parseLine(words []string) error {
	switch {
	case len(words) == 0 || words[0][0] == '#':
	case len(words) == 2 && words[0] == "environment" && len(words[1]) <= 64:
		s.Environment = words[1]
	case len(words) == 2 && words[0] == "faults" && (words[1] == "on" || words[1] == "off"):
		s.FaultsEnabled = words[1] == "on"
	case len(words) == 4 && words[0] == "key" && (words[1] == "trace" || words[1] == "fault"):
		secret, err := hex.DecodeString(words[3])
		if err != nil {
			return fmt.Errorf("a key is %d hex digits", 2*KeyBytes)
		}
		k, err := NewKey(words[2], words[1] == "fault", secret)
		if err != nil {
			return err
		}
		s.keys = append(s.keys, k)
	default:
		return fmt.Errorf("not one of: environment NAME, key trace|fault ID HEX, faults on|off")
	}
	return nil
}
