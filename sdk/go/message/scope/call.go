package scope

import (
	"strings"
	"unicode/utf8"

	"faultloom.dev/go/message/wire"
)

// Call is a call that is about to be made.
type Call struct {
	HTTP         bool
	Peer         string // name of the callee or its authority
	Name         string // gRPC method, or raw "METHOD /path"
	Procedure    string // of an RPC over HTTP, see wire.ProcedureName; else empty
	Accept       wire.Accept
	ReceiveLimit uint64 // bytes of one message; 0: unknown
}

// recordedName returns the name of the call in a history.
func (c *Call) recordedName() string {
	switch {
	case c.HTTP && c.Procedure != "":
		return c.Procedure
	case c.HTTP:
		return wire.NormalizeHTTPName(c.Name)
	}
	return c.Name
}

// OutgoingCall is a call that has begun.
type OutgoingCall struct {
	Number     uint64 // within the scope, from 1
	ID         uint64
	FaultIndex int         // index in the plan of the fault that fires, or -1
	Fault      *wire.Fault // the fault that fires, or nil
	Envelope   string      // what the request must carry; empty: too large, the request carries none
}

// CallEnd describes how a call ended.
type CallEnd struct {
	Status  uint64 // gRPC code or HTTP status; of a failed call always a gRPC code
	History []byte // the history that the reply carried, or nil; not retained
	Gap     bool   // without a history: the callee may have run
}

// sentCall is the state of one call.
type sentCall struct {
	peer, name   string            // name is raw
	replyStatus  uint32            // once replyStarted
	connectUS    uint64            // see SetConnectTime
	pieces       *wire.PieceJoiner // of a stream, until it ends
	replyStarted bool
	ended        bool
}

// BeginCall numbers a call, decides which fault fires at it, and records SEND_REQUEST. ok is false if the scope has
// finished: then the request is sent as if there were no scope.
func (s *Scope) BeginCall(at uint64, call Call) (c OutgoingCall, ok bool) {
	return s.beginCall(at, call, false)
}

// BeginInheritedCall is BeginCall for a call whose context had no scope, and which therefore got that of its goroutine.
// Other open scopes count the call, because it may belong to them, unless the goroutine is that of the request's
// handler.
func (s *Scope) BeginInheritedCall(at uint64, call Call) (c OutgoingCall, ok bool) {
	if c, ok = s.beginCall(at, call, true); ok && openScopes.Load() > 1 && !inHandler() {
		storeUnscoped(call, s)
	}
	return c, ok
}

func (s *Scope) beginCall(at uint64, call Call, inherited bool) (c OutgoingCall, ok bool) {
	recordedName := call.recordedName()
	if !isValidName(recordedName) || !isValidName(call.Peer) {
		recordedName, call.Peer = validName(recordedName), validName(call.Peer)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recording == nil {
		return c, false
	}
	c = OutgoingCall{Number: uint64(len(s.recording.calls)) + 1, FaultIndex: -1}
	c.ID = wire.DeriveCallID(s.env.Call, c.Number)
	tag := byte(wire.SendRequest)
	if call.HTTP {
		tag |= wire.TagHTTP
	}
	if inherited {
		tag |= wire.TagInherited
	}
	if s.evidence != nil {
		c.FaultIndex = s.evidence.decideFault(s.process.Service, call.Peer, call.Name, s.faultsEnabled())
		if c.FaultIndex >= 0 {
			c.Fault = &s.evidence.plan[c.FaultIndex]
			tag |= wire.TagFault
		}
	}
	s.recording.calls = append(s.recording.calls, sentCall{peer: call.Peer, name: call.Name})
	if s.recordedCalls == c.Number-1 && s.appendEvent(tag, at, len(recordedName)+len(call.Peer)+32) {
		s.recordedCalls++
		if inherited {
			s.version = wire.Version2
		}
		s.appendRef(recordedName)
		s.appendRef(call.Peer)
		if c.FaultIndex >= 0 {
			s.recording.events = wire.AppendVarint(s.recording.events, uint64(c.FaultIndex))
		}
	}
	if s.evidence != nil {
		s.evidence.countPrerequisites(true, s.process.Service, call.Peer, call.Name)
	}
	c.Envelope, _ = wire.AssembleEnvelope(s.env.SignedPrefix, c.ID, call.Accept, call.ReceiveLimit, s.evidence.hopCounters())
	return c, true
}

// AcceptLater adds the carriers that the caller accepts to a call that has begun without any. It returns false if its
// envelope cannot have them.
func (s *Scope) AcceptLater(c *OutgoingCall, accept wire.Accept, receiveLimit uint64) (ok bool) {
	if c.Envelope == "" {
		return false
	}
	c.Envelope, ok = wire.WithCarriers(c.Envelope, s.env.SignedPrefix, accept, receiveLimit)
	return ok
}

func isValidName(s string) bool {
	return s != "" && len(s) <= wire.MaxNameBytes && utf8.ValidString(s)
}

// validName makes a name one that the format allows: 1 to 200 bytes of UTF-8.
func validName(s string) string {
	if s == "" {
		return "unknown"
	}
	return wire.TruncateString(strings.ToValidUTF8(s, "?"), wire.MaxNameBytes)
}

// RecordReply records that the reply of a call arrived. A history counts once per call, and only if it answers this
// call. Another call's history, as a caching proxy may return it, is recorded as a gap.
func (s *Scope) RecordReply(at uint64, number uint64, end CallEnd) {
	s.endCall(wire.RecvResponse, at, number, end)
}

// RecordFailure records that a call ended without a reply.
func (s *Scope) RecordFailure(at uint64, number uint64, end CallEnd) {
	s.endCall(wire.CallFailed, at, number, end)
}

// SetConnectTime sets how long a call spent on a connection of its own, in µs. The end of the call records that.
func (s *Scope) SetConnectTime(number uint64, us uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.callLocked(number); c != nil {
		c.connectUS = us
	}
}

// ReplyStarted records that a reply has begun whose history is still to come. If the history never comes, Finish
// records the reply with a gap.
func (s *Scope) ReplyStarted(number uint64, status uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.callLocked(number); c != nil {
		c.replyStarted, c.replyStatus = true, uint32(status)
	}
}

// OpenStream records that a call is a stream, whose history comes in pieces. If the stream ends without a whole
// history, or is still open when the scope answers, its history consists of the pieces until then.
func (s *Scope) OpenStream(number uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.callLocked(number); c != nil {
		c.pieces = new(wire.PieceJoiner)
	}
}

// AddPiece adds the next piece of a stream's history. The piece is not retained.
func (s *Scope) AddPiece(number uint64, piece []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.callLocked(number); c != nil && c.pieces != nil {
		c.pieces.Add(piece)
	}
}

// callLocked returns a call by its number, or nil if there is none or the scope has finished.
func (s *Scope) callLocked(number uint64) *sentCall {
	if s.recording == nil || number == 0 || number > uint64(len(s.recording.calls)) {
		return nil
	}
	return &s.recording.calls[number-1]
}

func (s *Scope) endCall(kind byte, at uint64, number uint64, end CallEnd) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endCallLocked(kind, at, number, end)
}

func (s *Scope) endCallLocked(kind byte, at uint64, number uint64, end CallEnd) {
	call := s.callLocked(number)
	if call == nil || call.ended {
		return
	}
	call.ended = true
	id := wire.DeriveCallID(s.env.Call, number)
	if call.pieces != nil && end.History == nil {
		end.History = call.pieces.History(id)
		end.Gap = end.Gap || end.History == nil
	}
	call.pieces = nil
	var child []byte
	version := byte(wire.Version)
	if end.History != nil {
		head, segment, err := wire.SplitHistory(end.History)
		if err == nil && head.Call == id {
			child, version = segment, head.Version
		}
	}
	if s.evidence != nil {
		if kind == wire.RecvResponse {
			s.evidence.countPrerequisites(false, s.process.Service, call.peer, call.name)
		}
		if child != nil && s.evidence.hasConditions {
			// A child that cannot be read is embedded all the same: the tool reports what is wrong with it. One with too
			// many events is not, since the plan's conditions do not cover it.
			segment, tooLarge := wire.DecodeCounted(version, child)
			switch {
			case tooLarge:
				child = nil
			case segment != nil:
				s.evidence.addHistory(segment)
			}
		}
	}
	gap := end.Gap
	if end.History != nil {
		gap = child == nil
	}
	if number > s.recordedCalls {
		s.flags |= wire.SegmentTruncated
		return
	}
	if len(s.recording.events)+len(child) > wire.MaxHistoryBytes-reservedBytes {
		child, gap = nil, true
		s.flags |= wire.SegmentTruncated
	}
	tag := kind
	if child != nil {
		tag |= wire.TagChild
	}
	if gap {
		tag |= wire.TagGap
	}
	if call.connectUS > 0 {
		tag |= wire.TagConnected
	}
	if !s.appendEvent(tag, at, len(child)+42) {
		return
	}
	s.recording.events = wire.AppendVarint(wire.AppendVarint(s.recording.events, number), end.Status)
	if call.connectUS > 0 {
		s.version = wire.Version2
		s.recording.events = wire.AppendVarint(s.recording.events, call.connectUS)
	}
	if child != nil {
		s.version = max(s.version, version)
		s.recording.events = append(wire.AppendVarint(s.recording.events, uint64(len(child))), child...)
	}
}
