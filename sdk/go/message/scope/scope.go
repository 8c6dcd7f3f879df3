// Package scope holds what a service knows while it answers one call: it decides which fault fires at each send and
// records the history that goes back with the reply (3MileBeach §4.2, §4.3).
//
// The history is written once, event by event, into one buffer in its final form; histories of callees are appended as
// they came and are looked into only if there is a plan to decide. A scope is safe for concurrent use.
package scope

import (
	"sync"
	"time"

	"faultloom.dev/go/message/wire"
)

// room is left for the end of a history that would become too large to be read.
const room = 1024

// maxStrings bounds the search in the string table.
const maxStrings = 64

// Scope is the work done to answer one call. Times are µs since its start, by the monotonic clock.
type Scope struct {
	process *Process
	env     wire.Envelope
	start   time.Time
	startUS uint64

	apart     bool // no reply takes the history along: it is exported
	hasParent bool // the request came with a traceparent

	mu       sync.Mutex
	evidence *evidence // nil without a plan
	flags    byte
	last     uint64
	count    int
	recorded uint64     // sends that are in events; fewer than sent once there was no room for one
	rec      *recording // nil once the scope has answered
}

// recording is what grows while a scope lives. A scope itself stays reachable from its context for as long as the
// program likes; its recording goes back to the pool with the answer.
type recording struct {
	events  []byte
	strings []string
	sent    []sent
}

var recordings = sync.Pool{New: func() any {
	return &recording{events: make([]byte, 0, 512), strings: make([]string, 0, 8), sent: make([]sent, 0, 8)}
}}

func (r *recording) release() {
	if cap(r.events) > 64<<10 || cap(r.sent) > 1024 {
		return
	}
	clear(r.strings)
	clear(r.sent)
	r.events, r.strings, r.sent = r.events[:0], r.strings[:0], r.sent[:0]
	recordings.Put(r)
}

type sent struct {
	peer, name string       // name: raw
	status     uint32       // of a reply that has begun, see Begun
	pieces     *wire.Joiner // of a stream, see Open
	begun      bool
	ended      bool
}

// Call is what to do about one send.
type Call struct {
	Number   uint64
	ID       uint64
	Index    int         // of the fault that fires, or -1
	Fault    *wire.Fault // nil: none
	Envelope string      // what the request must carry; empty: too large, send nothing
}

// Send says what is about to be sent.
type Send struct {
	HTTP   bool
	Peer   string // name of the callee or its authority
	Name   string // gRPC method, or raw "METHOD /path"
	Accept wire.Accept
	Limit  uint64 // receive limit in bytes, 0: unknown
}

func (s *Scope) begin(p *Process) {
	s.process = p
	s.startUS = uint64(s.start.UnixMicro())
	s.rec = recordings.Get().(*recording)
	live.Add(1)
	if s.env.Plan != nil {
		s.evidence = newEvidence(s.env.Plan, s.env.Evidence)
		s.on()
	}
}

// leave ends what begin has begun, and returns what was recorded.
func (s *Scope) leave() *recording {
	rec := s.rec
	s.rec = nil
	live.Add(-1)
	return rec
}

// on reads the switch; that it was off once stays on record.
func (s *Scope) on() bool {
	if s.process.Receiver.FaultsOn() {
		return true
	}
	s.flags |= wire.SegmentFaultsOff
	return false
}

// TakesField notes that the next request of this method may have its envelope in a field. Call it before the scope ends.
func (s *Scope) TakesField() {
	s.mu.Lock()
	s.flags |= wire.SegmentTakesField
	s.mu.Unlock()
}

// Process is whose work this is.
func (s *Scope) Process() *Process { return s.process }

// Envelope is the accepted envelope. Do not change it.
func (s *Scope) Envelope() *wire.Envelope { return &s.env }

// Returns tells whether the reply brings the history back. Else Finish exports it, if it is wanted.
func (s *Scope) Returns() bool { return s.env.History && !s.apart }

// Now is the time since the scope's start in µs.
func (s *Scope) Now() uint64 { return uint64(time.Since(s.start) / time.Microsecond) }

// Send decides about a send and records it. ok is false when the scope has already answered: then the request is to be
// sent as if there were no scope.
func (s *Scope) Send(at uint64, send Send) (c Call, ok bool) {
	recorded := send.Name
	if send.HTTP {
		recorded = wire.NormalName(recorded)
	}
	if recorded == "" || send.Peer == "" || len(recorded) > wire.MaxNameBytes || len(send.Peer) > wire.MaxNameBytes {
		recorded, send.Peer = named(recorded), named(send.Peer)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rec == nil {
		return c, false
	}
	c = Call{Number: uint64(len(s.rec.sent)) + 1, Index: -1}
	c.ID = wire.CallID(s.env.Call, c.Number)
	tag := byte(wire.SendRequest)
	if send.HTTP {
		tag |= wire.TagHTTP
	}
	if s.evidence != nil {
		c.Index = s.evidence.decide(s.process.Service, send.Peer, send.Name, s.on())
		if c.Index >= 0 {
			c.Fault = &s.evidence.plan[c.Index]
			tag |= wire.TagFault
		}
	}
	s.rec.sent = append(s.rec.sent, sent{peer: send.Peer, name: send.Name})
	if s.recorded == c.Number-1 && s.event(tag, at, len(recorded)+len(send.Peer)+32) {
		s.recorded++
		s.reference(recorded)
		s.reference(send.Peer)
		if c.Index >= 0 {
			s.rec.events = wire.AppendVarint(s.rec.events, uint64(c.Index))
		}
	}
	if s.evidence != nil {
		s.evidence.count(true, s.process.Service, send.Peer, send.Name)
	}
	c.Envelope, _ = wire.Assemble(s.env.PassedOn, c.ID, send.Accept, send.Limit, s.evidence.hop())
	return c, true
}

func named(s string) string {
	if s == "" {
		return "unknown"
	}
	return wire.Cut(s, wire.MaxNameBytes)
}

// event starts an event, unless the history would become unreadable: then it is left out and the segment says so.
func (s *Scope) event(tag byte, at uint64, size int) bool {
	if len(s.rec.events)+size > wire.MaxHistoryBytes-room || s.count >= wire.MaxHistoryEvents-1 {
		s.flags |= wire.SegmentTruncated
		return false
	}
	s.count++
	var dt uint64
	if at > s.last {
		dt, s.last = at-s.last, at
	}
	s.rec.events = wire.AppendVarint(append(s.rec.events, tag), dt)
	return true
}

func (s *Scope) reference(text string) {
	for i, known := range s.rec.strings {
		if len(known) == len(text) && known == text {
			s.rec.events = wire.AppendVarint(s.rec.events, uint64(i)+1)
			return
		}
	}
	if len(s.rec.strings) < maxStrings { // beyond, a text is merely repeated: the search stays short
		s.rec.strings = append(s.rec.strings, text)
	}
	s.rec.events = wire.AppendString(append(s.rec.events, 0), text)
}
