// Package faults decides what a fault does to a call, for every hook: whether the request is sent, how long the call
// waits, what the caller gets and what the history records (docs/formats/messages.md, "Deciding about a send"). It is
// the only place that compares kinds of faults. A hook maps the outcome to the errors and replies of its library.
//
// FaultEffect and ReplyEffect are pure functions: no clock, no I/O, no allocation. spec/vectors/good/hook-*.json covers
// every kind with both protocols.
package faults

import (
	"net/http"

	"faultloom.dev/go/message/scope"
	"faultloom.dev/go/message/wire"
)

// Protocol is the protocol of a call.
type Protocol uint8

// The protocols of the hooks.
const (
	GRPC Protocol = iota
	HTTP
)

// gRPC codes. A call that ended without a reply is always recorded with one.
const (
	CodeCanceled    = 1
	CodeUnknown     = 2
	CodeDeadline    = 4
	CodeInternal    = 13
	CodeUnavailable = 14
)

const (
	maxGRPCCode   = 16
	maxWaitMS     = 30_000
	minHTTPStatus = 200 // of a final reply
	maxHTTPStatus = 999
)

// NoTimeout is the timeout of a caller that waits without limit.
const NoTimeout = ^uint64(0)

// Outcome is what the caller of a call gets.
type Outcome uint8

// The outcomes. Lost is an intention: ReplyEffect turns it into Reset once the reply has arrived.
const (
	Reply            Outcome = iota // the reply, unchanged
	Status                          // a reply that only has a status; nothing was sent
	Refused                         // connection refused; nothing was sent
	Reset                           // connection reset
	DeadlineExceeded                // the caller's deadline has passed
	Lost                            // the request is sent, and its reply will be dropped
	Empty                           // the reply with an empty body or message
	Corrupt                         // the reply with a damaged body or message
	Failed                          // the failure that really happened
)

var outcomeNames = [...]string{Reply: "reply", Status: "status", Refused: "refused", Reset: "reset", DeadlineExceeded: "deadline",
	Lost: "lost", Empty: "empty", Corrupt: "corrupt", Failed: "failed"}

func (o Outcome) String() string { return outcomeNames[o] }

// Effect is what a fault does to a call before its request is sent.
type Effect struct {
	WaitMS         uint64 // wait this long before anything else
	Sends          bool   // the request is sent after the wait
	Outcome        Outcome
	Status         uint64 // unless Sends: what the caller gets, a gRPC code, or the HTTP status of outcome Status
	RecordedStatus uint64 // unless Sends: the status of the recorded event
}

// RecordsReply reports whether a call that was not sent is recorded as a reply instead of a failure.
func (e Effect) RecordsReply() bool { return e.Outcome == Status }

// FaultEffect returns what a fault does to a call before its request is sent. A nil fault does nothing. timeoutMS is
// the time that the caller still has, or NoTimeout.
func FaultEffect(protocol Protocol, f *wire.Fault, timeoutMS uint64) Effect {
	if f == nil {
		return Effect{Sends: true}
	}
	switch f.Kind {
	case wire.Unavailable:
		return unsent(Refused, CodeUnavailable)
	case wire.Reset:
		return unsent(Reset, CodeUnavailable)
	case wire.Deadline:
		return unsent(DeadlineExceeded, CodeDeadline)
	case wire.Status:
		return Effect{Outcome: Status, Status: deliverableStatus(protocol, f.Arg), RecordedStatus: f.Arg}
	case wire.Delay:
		if wait := min(f.Arg, maxWaitMS); wait < timeoutMS {
			return Effect{WaitMS: wait, Sends: true}
		}
		return expired(timeoutMS)
	case wire.Hang:
		wait := f.Arg
		if wait == 0 || wait > maxWaitMS {
			wait = maxWaitMS
		}
		return expired(min(wait, timeoutMS))
	case wire.LostReply:
		return Effect{Sends: true, Outcome: Lost}
	case wire.EmptyReply:
		return Effect{Sends: true, Outcome: Empty}
	case wire.CorruptReply:
		return Effect{Sends: true, Outcome: Corrupt}
	}
	return Effect{Sends: true} // the decoder refuses other kinds
}

func unsent(outcome Outcome, code uint64) Effect {
	return Effect{Outcome: outcome, Status: code, RecordedStatus: code}
}

func expired(waitMS uint64) Effect {
	e := unsent(DeadlineExceeded, CodeDeadline)
	e.WaitMS = waitMS
	return e
}

// deliverableStatus replaces a status that a reply of the protocol cannot have.
func deliverableStatus(protocol Protocol, status uint64) uint64 {
	switch {
	case protocol == GRPC && (status < 1 || status > maxGRPCCode):
		return CodeUnknown
	case protocol == HTTP && (status < minHTTPStatus || status > maxHTTPStatus):
		return http.StatusInternalServerError
	}
	return status
}

// Result is how a call ended that was sent.
type Result struct {
	Failed  bool   // without a reply: Status is a gRPC code
	Status  uint64 // of the reply that arrived
	History bool   // the reply carried the history of the callee
}

// CallEffect is what the caller gets after a call that was sent, and what is recorded.
type CallEffect struct {
	Outcome        Outcome
	Status         uint64 // what the caller gets: a gRPC code or an HTTP status
	RecordsFailure bool   // record a failure instead of a reply
	RecordedStatus uint64
	Gap            bool // the reply carried no history
}

// ReplyEffect returns what a fault does to a call whose request was sent and that ended with the result. A nil fault
// changes nothing, and no fault changes a call that really failed.
func ReplyEffect(protocol Protocol, f *wire.Fault, result Result) CallEffect {
	e := CallEffect{Outcome: Reply, Status: result.Status, RecordedStatus: result.Status, Gap: !result.History}
	if result.Failed {
		e.Outcome, e.RecordsFailure = Failed, true
		return e
	}
	if f == nil {
		return e
	}
	altersMessage := protocol == HTTP || result.Status == 0 // a gRPC error has no message
	switch {
	case f.Kind == wire.LostReply:
		e.Outcome, e.Status = Reset, CodeUnavailable
		e.RecordsFailure, e.RecordedStatus = true, CodeUnavailable
	case f.Kind == wire.EmptyReply && altersMessage:
		e.Outcome = Empty
	case f.Kind == wire.CorruptReply && altersMessage:
		e.Outcome = Corrupt
		if protocol == GRPC {
			e.Status = CodeInternal
		}
	}
	return e
}

// RecordUnsent records the end of a call whose request is not sent.
func RecordUnsent(s *scope.Scope, number uint64, e Effect) {
	end := scope.CallEnd{Status: e.RecordedStatus}
	if e.RecordsReply() {
		s.RecordReply(s.Now(), number, end)
	} else {
		s.RecordFailure(s.Now(), number, end)
	}
}
