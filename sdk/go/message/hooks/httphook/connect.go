package httphook

import (
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"

	"faultloom.dev/go/message/scope"
)

// connectTimer measures how long a request spends on connections of its own: name resolution, connecting, TLS. The
// transport calls its hooks from several goroutines, also after the request has ended.
type connectTimer struct {
	mu                sync.Mutex
	requested, dialed time.Time // of the connection that the request waits for: when it was requested, and first dialed
	hadConnection     bool
	took              time.Duration
}

// trace returns a request that reports to the timer. The program's own httptrace.ClientTrace is called too.
func (t *connectTimer) trace(r *http.Request) *http.Request {
	return r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		GetConn:      func(string) { t.set(&t.requested) },
		DNSStart:     func(httptrace.DNSStartInfo) { t.set(&t.dialed) },
		ConnectStart: func(string, string) { t.set(&t.dialed) },
		GotConn:      func(c httptrace.GotConnInfo) { t.gotConnection(c.Reused) },
	}))
}

// set sets a time that is not set.
func (t *connectTimer) set(at *time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at.IsZero() {
		*at = time.Now()
	}
}

// gotConnection adds the time for a new connection. A request that waits for one may get another, which is idle now. If
// that one turns out to be closed, the transport requests the next.
func (t *connectTimer) gotConnection(reused bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hadConnection = true
	if !reused {
		t.add()
	}
	t.requested, t.dialed = time.Time{}, time.Time{}
}

// add adds the time since the connection was first dialed. A DialContext function of the program may not report that.
func (t *connectTimer) add() {
	start := t.dialed
	if start.IsZero() {
		start = t.requested
	}
	if !start.IsZero() {
		t.took += max(time.Since(start), time.Microsecond)
	}
}

// record records the time with the call. A request that failed without a connection has dialed until now.
func (t *connectTimer) record(s *scope.Scope, number uint64, failed bool) {
	t.mu.Lock()
	if failed && !t.hadConnection && !t.dialed.IsZero() {
		t.add()
	}
	took := t.took
	t.mu.Unlock()
	if took > 0 {
		s.SetConnectTime(number, uint64(took/time.Microsecond))
	}
}
