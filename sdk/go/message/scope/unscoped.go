package scope

import (
	"path"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"faultloom.dev/go/message/wire"
)

// UnscopedCall is a call that may belong to a scope that was open when it was sent: its context belonged to no request.
type UnscopedCall struct {
	HTTP bool
	Peer string // name of the callee or its authority
	Name string // gRPC method, or "METHOD /path", normalized
	Site string // where the program made the call ("file.go:12"), or empty
}

// maxUnscopedEvents is how many different calls a segment lists. Further ones are counted together.
const maxUnscopedEvents = 16

// otherCalls is the name and the peer of the calls that are not listed.
const otherCalls = "other"

// RecordUnscoped records calls that belonged to no request: equal ones together, in the order of the first of each.
// more is the number of calls of which nothing else is known.
func (s *Scope) RecordUnscoped(at uint64, calls []UnscopedCall, more uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recording != nil {
		s.recordUnscopedLocked(at, calls, more)
	}
}

func (s *Scope) recordUnscopedLocked(at uint64, calls []UnscopedCall, more uint64) {
	var listed []UnscopedCall
	counts := map[UnscopedCall]uint64{}
	for _, call := range calls {
		switch {
		case counts[call] > 0:
			counts[call]++
		case len(listed) < maxUnscopedEvents:
			listed, counts[call] = append(listed, call), 1
		default:
			more++
		}
	}
	for _, call := range listed {
		s.appendUnscoped(at, call, counts[call])
	}
	if more > 0 {
		s.appendUnscoped(at, UnscopedCall{Name: otherCalls, Peer: otherCalls}, more)
	}
}

func (s *Scope) appendUnscoped(at uint64, call UnscopedCall, count uint64) {
	tag := byte(wire.UnscopedCalls)
	if call.HTTP {
		tag |= wire.TagHTTP
	}
	name, peer := recordedText(call.Name), recordedText(call.Peer)
	site := wire.TruncateString(strings.ToValidUTF8(call.Site, "?"), wire.MaxNameBytes)
	if !s.appendEvent(tag, at, len(name)+len(peer)+len(site)+32) {
		return
	}
	s.version = wire.Version2
	s.appendRef(name)
	s.appendRef(peer)
	s.recording.events = wire.AppendString(wire.AppendVarint(s.recording.events, count), site)
}

func recordedText(s string) string {
	if isValidName(s) {
		return s
	}
	return validName(s)
}

// maxUnscopedCalls is how many of the last calls of this process are stored. Of those before, only the number is known.
const maxUnscopedCalls = 64

var (
	// unscopedSent is the number of calls so far whose context belonged to no request, without those that only one scope
	// can have made.
	unscopedSent atomic.Uint64

	unscopedMu    sync.Mutex
	unscopedCalls [maxUnscopedCalls]struct { // call n is at n % maxUnscopedCalls
		UnscopedCall
		scope *Scope // that recorded it as inherited, or nil
	}
)

// CountLost stores a call that belonged to no request, for all scopes that are open. Its peer is an authority.
func CountLost(call Call) {
	call.Peer = ThisProcess().PeerName(call.Peer)
	storeUnscoped(call, nil)
}

// storeUnscoped stores a call for the scopes that are open. The scope by, unless nil, has recorded it as inherited: a
// goroutine that it has started may work for the others.
func storeUnscoped(call Call, by *Scope) {
	site := callSite()
	unscopedMu.Lock()
	defer unscopedMu.Unlock()
	n := unscopedSent.Load()
	stored := &unscopedCalls[n%maxUnscopedCalls]
	stored.UnscopedCall, stored.scope = UnscopedCall{HTTP: call.HTTP, Peer: call.Peer, Name: call.recordedName(), Site: site}, by
	if by != nil {
		by.uncertainCalls++
	}
	unscopedSent.Store(n + 1)
}

// unscopedCalls returns the calls since the start of s that it has not recorded itself, oldest first, and how many more
// there were.
func (s *Scope) unscopedCalls() (calls []UnscopedCall, more uint64) {
	unscopedMu.Lock()
	defer unscopedMu.Unlock()
	sent := unscopedSent.Load()
	oldest := s.unscopedBefore
	if sent-oldest > maxUnscopedCalls {
		oldest = sent - maxUnscopedCalls
	}
	for n := oldest; n < sent; n++ {
		if stored := &unscopedCalls[n%maxUnscopedCalls]; stored.scope != s {
			calls = append(calls, stored.UnscopedCall)
		}
	}
	return calls, sent - s.unscopedBefore - s.uncertainCalls - uint64(len(calls))
}

// callSite returns the innermost line of the program on the stack, without its folder. It skips clients that are
// generated from protobuf files.
func callSite() string {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		if f.Function != "" && !isLibrary(f) {
			return path.Base(f.File) + ":" + strconv.Itoa(f.Line)
		}
		if !more {
			return ""
		}
	}
}

// inHandler reports whether the running goroutine handles a request: the hook that has called the handler is on its
// stack. Its calls belong to that request. A goroutine that a handler has started may work for others.
func inHandler() bool {
	var pcs [256]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		for _, hook := range [...]string{"/httphook.Serve", "/grpchook.unaryServer.func1", "/grpchook.streamServer.func1"} {
			if strings.HasSuffix(f.Function, hook) {
				return true
			}
		}
		if !more {
			return false
		}
	}
}

func isLibrary(f runtime.Frame) bool {
	if strings.HasSuffix(f.File, "_test.go") {
		return false
	}
	for _, prefix := range [...]string{"net/http", "runtime.", "google.golang.org/grpc", "connectrpc.com/connect", "faultloom.dev/go/message/"} {
		if strings.HasPrefix(f.Function, prefix) {
			return true
		}
	}
	return strings.HasSuffix(f.File, ".pb.go") || strings.HasSuffix(f.File, ".connect.go") || strings.Contains(f.Function, "/internal/_faultloom/")
}
