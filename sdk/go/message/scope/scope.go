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
const reservedBytes = 1024

// maxStrings bounds the search in the string table.
const maxStrings = 64

// Scope is the work done to answer one call. Times are µs since its start, by the monotonic clock.
type Scope struct {
	process *Process
	env     wire.Envelope
	start   time.Time
	startUS uint64

	exported  bool // no reply takes the history along: it is exported
	hasParent bool // the request came with a traceparent

	mu            sync.Mutex
	evidence      *evidence // nil without a plan
	flags         byte
	lastUS        uint64
	eventCount    int
	recordedCalls uint64     // sends that are in events; fewer than sent once there was no room for one
	recording     *recording // nil once the scope has answered
}

// recording is what grows while a scope lives. A scope itself stays reachable from its context for as long as the
// program likes; its recording goes back to the pool with the answer.
type recording struct {
	events  []byte
	strings []string
	calls   []sentCall
}

var recordings = sync.Pool{New: func() any {
	return &recording{events: make([]byte, 0, 512), strings: make([]string, 0, 8), calls: make([]sentCall, 0, 8)}
}}

func (r *recording) release() {
	if cap(r.events) > 64<<10 || cap(r.calls) > 1024 {
		return
	}
	clear(r.strings)
	clear(r.calls)
	r.events, r.strings, r.calls = r.events[:0], r.strings[:0], r.calls[:0]
	recordings.Put(r)
}

type sentCall struct {
	peer, name   string            // name: raw
	replyStatus  uint32            // of a reply that has begun, see Begun
	pieces       *wire.PieceJoiner // of a stream, see Open
	replyStarted bool
	ended        bool
}

// Call is what to do about one send.
type OutgoingCall struct {
	Number     uint64
	ID         uint64
	FaultIndex int         // of the fault that fires, or -1
	Fault      *wire.Fault // nil: none
	Envelope   string      // what the request must carry; empty: too large, send nothing
}

// Send says what is about to be sent.
type Call struct {
	HTTP         bool
	Peer         string // name of the callee or its authority
	Name         string // gRPC method, or raw "METHOD /path"
	Accept       wire.Accept
	ReceiveLimit uint64 // receive limit in bytes, 0: unknown
}

func (s *Scope) open(p *Process) {
	s.process = p
	s.startUS = uint64(s.start.UnixMicro())
	s.recording = recordings.Get().(*recording)
	openScopes.Add(1)
	if s.env.Plan != nil {
		s.evidence = newEvidence(s.env.Plan, s.env.Evidence)
		s.faultsEnabled()
	}
}

// leave ends what begin has begun, and returns what was recorded.
func (s *Scope) detachRecording() *recording {
	rec := s.recording
	s.recording = nil
	openScopes.Add(-1)
	return rec
}

// on reads the switch; that it was off once stays on record.
func (s *Scope) faultsEnabled() bool {
	if s.process.Receiver.FaultsEnabled() {
		return true
	}
	s.flags |= wire.SegmentFaultsOff
	return false
}

// TakesField notes that the next request of this method may have its envelope in a field. Call it before the scope ends.
func (s *Scope) SetTakesField() {
	s.mu.Lock()
	s.flags |= wire.SegmentTakesField
	s.mu.Unlock()
}

// Process is whose work this is.
func (s *Scope) Process() *Process { return s.process }

// Envelope is the accepted envelope. Do not change it.
func (s *Scope) Envelope() *wire.Envelope { return &s.env }

// Returns tells whether the reply brings the history back. Else Finish exports it, if it is wanted.
func (s *Scope) ReturnsHistory() bool { return s.env.History && !s.exported }

// Now is the time since the scope's start in µs.
func (s *Scope) Now() uint64 { return uint64(time.Since(s.start) / time.Microsecond) }

// Send decides about a send and records it. ok is false when the scope has already answered: then the request is to be
// sent as if there were no scope.
func (s *Scope) BeginCall(at uint64, send Call) (c OutgoingCall, ok bool) {
	recorded := send.Name
	if send.HTTP {
		recorded = wire.NormalizeHTTPName(recorded)
	}
	if recorded == "" || send.Peer == "" || len(recorded) > wire.MaxNameBytes || len(send.Peer) > wire.MaxNameBytes {
		recorded, send.Peer = validName(recorded), validName(send.Peer)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recording == nil {
		return c, false
	}
	c = OutgoingCall{Number: uint64(len(s.recording.calls)) + 1, FaultIndex: -1}
	c.ID = wire.DeriveCallID(s.env.Call, c.Number)
	tag := byte(wire.SendRequest)
	if send.HTTP {
		tag |= wire.TagHTTP
	}
	if s.evidence != nil {
		c.FaultIndex = s.evidence.decideFault(s.process.Service, send.Peer, send.Name, s.faultsEnabled())
		if c.FaultIndex >= 0 {
			c.Fault = &s.evidence.plan[c.FaultIndex]
			tag |= wire.TagFault
		}
	}
	s.recording.calls = append(s.recording.calls, sentCall{peer: send.Peer, name: send.Name})
	if s.recordedCalls == c.Number-1 && s.appendEvent(tag, at, len(recorded)+len(send.Peer)+32) {
		s.recordedCalls++
		s.appendRef(recorded)
		s.appendRef(send.Peer)
		if c.FaultIndex >= 0 {
			s.recording.events = wire.AppendVarint(s.recording.events, uint64(c.FaultIndex))
		}
	}
	if s.evidence != nil {
		s.evidence.countPrerequisites(true, s.process.Service, send.Peer, send.Name)
	}
	c.Envelope, _ = wire.AssembleEnvelope(s.env.SignedBlock, c.ID, send.Accept, send.ReceiveLimit, s.evidence.hopCounters())
	return c, true
}

func validName(s string) string {
	if s == "" {
		return "unknown"
	}
	return wire.TruncateString(s, wire.MaxNameBytes)
}

// event starts an event, unless the history would become unreadable: then it is left out and the segment says so.
func (s *Scope) appendEvent(tag byte, at uint64, size int) bool {
	if len(s.recording.events)+size > wire.MaxHistoryBytes-reservedBytes || s.eventCount >= wire.MaxHistoryEvents-1 {
		s.flags |= wire.SegmentTruncated
		return false
	}
	s.eventCount++
	var dt uint64
	if at > s.lastUS {
		dt, s.lastUS = at-s.lastUS, at
	}
	s.recording.events = wire.AppendVarint(append(s.recording.events, tag), dt)
	return true
}

func (s *Scope) appendRef(text string) {
	for i, known := range s.recording.strings {
		if len(known) == len(text) && known == text {
			s.recording.events = wire.AppendVarint(s.recording.events, uint64(i)+1)
			return
		}
	}
	if len(s.recording.strings) < maxStrings { // beyond, a text is merely repeated: the search stays short
		s.recording.strings = append(s.recording.strings, text)
	}
	s.recording.events = wire.AppendString(append(s.recording.events, 0), text)
}
