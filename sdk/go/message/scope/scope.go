// Package scope records what a service does while it answers one call, and decides which fault fires at each call that
// it makes meanwhile (3MileBeach §4.2, §4.3).
//
// The history is written once, event by event, into one buffer in its final form. Histories of callees are appended
// unchanged, and are decoded only if there is a plan. A scope is safe for concurrent use.
package scope

import (
	"sync"
	"time"

	"faultloom.dev/go/message/wire"
)

// reservedBytes are kept free for the last event of a history.
const reservedBytes = 1024

// maxStrings bounds the linear search in the string table.
const maxStrings = 64

// Scope is the work done to answer one call. Times are µs since its start, by the monotonic clock.
type Scope struct {
	process *Process
	env     wire.Envelope
	start   time.Time
	startUS uint64

	exported  bool // the history is exported instead of returned with the reply
	hasParent bool // the request came with a traceparent

	servedPath     string           // of an HTTP request, escaped
	unscopedBefore uint64           // unscopedSent at the start
	uncertainCalls uint64           // its own calls in unscopedSent; guarded by unscopedMu
	holder         *goroutineHolder // set by Enter

	mu            sync.Mutex
	evidence      *evidence // nil without a plan
	version       byte      // of the history: wire.Version2 once it has what version 1 does not have
	flags         byte
	lastUS        uint64
	eventCount    int
	recordedCalls uint64     // calls whose SEND_REQUEST is in the events; fewer than calls once there is no room
	recording     *recording // nil once the scope has finished
	route         string     // the call's name by its router, or empty
}

// recording holds the buffers of an open scope. The program's contexts may keep a scope alive for long, so the buffers
// go back to a pool when it finishes.
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

func (s *Scope) open(p *Process) {
	s.process = p
	s.startUS = uint64(s.start.UnixMicro())
	s.version = wire.Version
	s.recording = recordings.Get().(*recording)
	openScopes.Add(1)
	s.unscopedBefore = unscopedSent.Load()
	if s.env.Plan != nil {
		s.evidence = newEvidence(s.env.Plan, s.env.Evidence)
		s.faultsEnabled()
	}
}

// detachRecording closes the scope and returns its recording.
func (s *Scope) detachRecording() *recording {
	rec := s.recording
	s.recording = nil
	openScopes.Add(-1)
	if s.holder != nil {
		s.holder.scope.Store(nil)
	}
	return rec
}

// abandon closes the scope without a history, if it is still open.
func (s *Scope) abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recording != nil {
		s.detachRecording().release()
	}
}

// faultsEnabled reads the switch, and sets the segment's flag if faults are switched off.
func (s *Scope) faultsEnabled() bool {
	if s.process.Receiver.FaultsEnabled() {
		return true
	}
	s.flags |= wire.SegmentFaultsOff
	return false
}

// SetTakesField announces to the caller that the next request of this method may carry its envelope in a field. Call it
// before the scope finishes.
func (s *Scope) SetTakesField() {
	s.mu.Lock()
	s.flags |= wire.SegmentTakesField
	s.mu.Unlock()
}

// SetServedPath sets the escaped path of the HTTP request that the scope answers. Call it before the program runs.
func (s *Scope) SetServedPath(path string) { s.servedPath = path }

// ServedPath returns the escaped path of the HTTP request that the scope answers.
func (s *Scope) ServedPath() string { return s.servedPath }

// SetRoute sets the call's name by the router's template. Of nested routers the last one counts.
func (s *Scope) SetRoute(name string) {
	s.mu.Lock()
	s.route = name
	s.mu.Unlock()
}

// Route returns the call's name by its router, or an empty string if no router has set it.
func (s *Scope) Route() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.route
}

// Process returns the service that the scope belongs to.
func (s *Scope) Process() *Process { return s.process }

// Envelope returns the accepted envelope. Do not change it.
func (s *Scope) Envelope() *wire.Envelope { return &s.env }

// ReturnsHistory reports whether the reply carries the history. Otherwise Finish exports it if the process has an
// exporter.
func (s *Scope) ReturnsHistory() bool { return s.env.History && !s.exported }

// Now returns the time since the scope's start in µs.
func (s *Scope) Now() uint64 { return uint64(time.Since(s.start) / time.Microsecond) }

// appendEvent appends the tag and the time of an event. It returns false if the history would exceed what a reader
// accepts; then the event is left out and the segment is marked as truncated.
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

// appendRef appends a string as a reference into the string table, or as a literal.
func (s *Scope) appendRef(text string) {
	for i, entry := range s.recording.strings {
		if len(entry) == len(text) && entry == text {
			s.recording.events = wire.AppendVarint(s.recording.events, uint64(i)+1)
			return
		}
	}
	if len(s.recording.strings) < maxStrings { // further strings are repeated in full, which keeps the search short
		s.recording.strings = append(s.recording.strings, text)
	}
	s.recording.events = wire.AppendString(append(s.recording.events, 0), text)
}
