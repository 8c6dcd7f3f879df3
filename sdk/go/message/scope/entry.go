package scope

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"faultloom.dev/go/message/entry"
	"faultloom.dev/go/message/wire"
)

const (
	maxSample         = 1_000_000
	sampledTTLSeconds = 60 // seconds
)

// Entry says how a service begins requests itself. The zero value: not at all.
type EntryConfig struct {
	OneIn  uint64          // one in so many requests is drawn; 0: none
	Bridge bool            // their envelopes also travel in traceparent and baggage
	Export *entry.Exporter // takes histories that no reply carries; nil: they are dropped
}

// ParseEntry reads FAULTLOOM_SAMPLE, FAULTLOOM_EXPORT and FAULTLOOM_BRIDGE. What is not understood is said and left out.
func ParseEntry(getenv func(string) string, say io.Writer) EntryConfig {
	e := EntryConfig{Bridge: getenv("FAULTLOOM_BRIDGE") == "on"}
	if endpoint := getenv("FAULTLOOM_EXPORT"); endpoint != "" {
		x, err := entry.NewExporter(endpoint)
		if err != nil {
			fmt.Fprintf(say, "faultloom: FAULTLOOM_EXPORT is %v: nothing is exported\n", err)
		}
		e.Export = x
	}
	sample := getenv("FAULTLOOM_SAMPLE")
	if sample == "" {
		return e
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(sample, "1/"), 10, 64)
	switch {
	case err != nil || !strings.HasPrefix(sample, "1/") || n < 1 || n > maxSample:
		fmt.Fprintf(say, "faultloom: FAULTLOOM_SAMPLE is not 1/N with N from 1 to %d: no request is drawn\n", maxSample)
	case e.Export == nil:
		fmt.Fprintln(say, "faultloom: FAULTLOOM_SAMPLE needs FAULTLOOM_EXPORT, where histories are to go: no request is drawn")
	default:
		e.OneIn = n
	}
	return e
}

// Draw tells whether a request that arrived without an envelope is drawn.
func (p *Process) Sample() bool { return p.Entry.OneIn > 0 && rand.Uint64N(p.Entry.OneIn) == 0 }

// start makes the envelope of a drawn request.
func (p *Process) sampleScope(s *Scope, a IncomingRequest) bool {
	s.env, s.exported, s.hasParent = wire.Envelope{}, false, false // what a refused one has left
	if !a.Sampled && !p.Sample() {
		return false
	}
	settings := p.Receiver.Settings()
	if settings == nil {
		return false
	}
	key := settings.SigningKey(false)
	if key == nil {
		return false
	}
	parent, ok := wire.ParseTraceparent(a.Traceparent)
	if !ok {
		parent = wire.Traceparent{Trace: RandomTraceID(), Parent: RandomCallID()}
	}
	s.env.Signed = wire.Signed{History: true, Bridge: p.Entry.Bridge, Trace: parent.Trace, Expires: uint32(s.start.Add(sampledTTLSeconds * time.Second).Unix()),
		KeyID: key.ID, Environment: settings.Environment}
	s.env.Call = parent.Parent
	var part, out [256]byte
	signed, err := wire.AppendSignedPart(part[:0], &s.env.Signed)
	if err != nil {
		return false
	}
	s.env.SignedBlock = string(key.Sign(out[:0], signed))
	s.exported, s.hasParent = true, ok
	return true
}

// RandomTrace is a trace id.
func RandomTraceID() (id [16]byte) {
	for i, a, b := 0, rand.Uint64(), rand.Uint64()|1; i < 8; i++ {
		id[i], id[i+8] = byte(a>>(8*i)), byte(b>>(8*i))
	}
	return id
}

// RandomCall is the id of a call that begins a request.
func RandomCallID() uint64 { return rand.Uint64() | 1 }
