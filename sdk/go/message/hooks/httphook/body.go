package httphook

import (
	"bytes"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"faultloom.dev/go/message/scope"
	"faultloom.dev/go/message/wire"
)

const (
	maxPrefetch  = 256 << 10 // a reply with a tail and at most this length is read at once
	prefetchTime = 100 * time.Millisecond
	maxDrain     = 256 << 10             // how much Close reads to find the tail of a body that the program did not read
	drainTimeout = 50 * time.Millisecond // for how long
	readChunk    = 8 << 10
	maxTail      = wire.MaxHistoryBytes + 8
	maxAltered   = 32 << 20 // how much of a body a fault keeps in memory
)

// callRecorder records the end of one call, once.
type callRecorder struct {
	scope    *scope.Scope
	number   uint64
	status   uint64
	failed   bool
	history  []byte
	recorded atomic.Bool
}

func (r *callRecorder) record(history []byte) {
	if r.recorded.Swap(true) {
		return
	}
	if history == nil {
		history = r.history
	}
	end := scope.CallEnd{Status: r.status, History: history, Gap: history == nil}
	if r.failed {
		r.scope.RecordFailure(r.scope.Now(), r.number, end)
	} else {
		r.scope.RecordReply(r.scope.Now(), r.number, end)
	}
}

// tailReader removes the tail from a body while it streams. The position of the tail is only certain at the end of the
// body, so the reader holds bytes back from the first position where a tail could begin: byte 0x01, flags, a short
// name. Text contains no such sequence. In binary data, a few more bytes rule most candidates out, and a candidate that
// is longer than the largest tail is released.
type tailReader struct {
	body     io.ReadCloser
	recorder *callRecorder

	used  atomic.Bool // whether the program reads or closes the body
	mu    sync.Mutex  // held while reading; Close must not wait for the read that it interrupts
	buf   []byte      // buf[start:] was read and not returned yet
	start int
	safe  int // buf[start:safe] belongs to the body
	err   error
}

func newTailReader(body io.ReadCloser, rec *callRecorder) *tailReader {
	return &tailReader{body: body, recorder: rec}
}

func (t *tailReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	t.used.Store(true)
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.safe == t.start {
		if t.err != nil {
			return 0, t.err
		}
		t.fill()
	}
	n := copy(p, t.buf[t.start:t.safe])
	t.start += n
	return n, nil
}

// fill reads once and decides how much of the buffer is body.
func (t *tailReader) fill() {
	if cap(t.buf)-len(t.buf) < readChunk {
		// at least as many bytes become free as are moved, so that a body in which a tail seems to begin everywhere is
		// not moved once per read
		pending := t.buf[t.start:]
		if size := 2*len(pending) + readChunk; size > cap(t.buf) {
			t.buf = append(make([]byte, 0, size), pending...)
		} else {
			t.buf = t.buf[:copy(t.buf, pending)]
		}
		t.safe -= t.start
		t.start = 0
	}
	n, err := t.body.Read(t.buf[len(t.buf):cap(t.buf)])
	t.buf = t.buf[:len(t.buf)+n]
	if err != nil {
		t.finish(err)
		return
	}
	t.release()
	// a complete tail that answers our call is the tail; it is recorded now, since a fault at the program's next call
	// may depend on it
	if body, history := wire.CutTail(t.buf[t.safe:]); history != nil && len(body) == 0 && t.answersOurCall(history) {
		t.recorder.record(append([]byte(nil), history...))
	}
}

func (t *tailReader) answersOurCall(history []byte) bool {
	head, _, err := wire.SplitHistory(history)
	return err == nil && head.Call == wire.DeriveCallID(t.recorder.scope.Envelope().Call, t.recorder.number)
}

// finish separates body and tail once the body has ended.
func (t *tailReader) finish(err error) {
	t.err = err
	t.safe = len(t.buf)
	var history []byte
	if err == io.EOF {
		var body []byte
		if body, history = wire.CutTail(t.buf[t.start:]); history != nil {
			t.safe = t.start + len(body)
			t.buf = t.buf[:t.safe]
		}
	}
	t.recorder.record(history)
}

// release moves safe to the first byte that could begin a tail.
func (t *tailReader) release() {
	for {
		i := indexVersion(t.buf[t.safe:])
		if i < 0 {
			t.safe = len(t.buf)
			return
		}
		t.safe += i
		held := t.buf[t.safe:]
		if len(held) <= maxTail && mayBeTail(held) {
			return
		}
		t.safe++
	}
}

// indexVersion returns the position of the first byte that is the version of a history, or -1.
func indexVersion(b []byte) int {
	first := bytes.IndexByte(b, wire.Version)
	if first >= 0 {
		b = b[:first]
	}
	if second := bytes.IndexByte(b, wire.Version2); second >= 0 {
		return second
	}
	return first
}

// mayBeTail reports whether b can be a tail or the beginning of one.
func mayBeTail(b []byte) bool {
	const flagsAt, lengthAt, nameAt = 9, 10, 11
	if len(b) > flagsAt && b[flagsAt] > wire.SegmentTruncated|wire.SegmentFaultsOff {
		return false
	}
	if len(b) > lengthAt && (b[lengthAt] == 0 || b[lengthAt] > wire.MaxServiceBytes) {
		return false
	}
	if len(b) > nameAt {
		for _, c := range b[nameAt:min(len(b), nameAt+int(b[lengthAt]))] {
			if c < 0x20 || c == 0x7f {
				return false
			}
		}
	}
	return true
}

// prefetch reads the body to its end, unless that takes longer than prefetchTime, by which it delays the reply at most.
// It returns whether the body has ended.
func (t *tailReader) prefetch() bool {
	ended := make(chan struct{})
	go func() {
		for !t.used.Load() { // then the program reads on
			t.mu.Lock()
			if t.err == nil {
				t.fill()
			}
			err := t.err
			t.mu.Unlock()
			if err != nil {
				close(ended)
				return
			}
		}
	}()
	late := time.NewTimer(prefetchTime)
	defer late.Stop()
	select {
	case <-ended:
		return true
	case <-late.C:
		return false
	}
}

// Close reads the rest of the body for the tail, if the rest is short and arrives quickly, since programs that parse a
// body rarely read it to its end. Otherwise a gap is recorded.
func (t *tailReader) Close() error {
	t.used.Store(true)
	if !t.mu.TryLock() {
		t.recorder.record(nil)
		return t.body.Close()
	}
	defer t.mu.Unlock()
	if t.err == nil && !t.recorder.recorded.Load() {
		stop := time.AfterFunc(drainTimeout, func() { t.body.Close() })
		for left := maxDrain; t.err == nil && left > 0 && !t.recorder.recorded.Load(); {
			t.start = t.safe
			pending := len(t.buf) - t.start
			t.fill()
			left -= max(1, len(t.buf)-t.start-pending)
		}
		stop.Stop()
	}
	t.buf, t.start, t.safe = nil, 0, 0
	if t.err == nil {
		t.err = http.ErrBodyReadAfterClose
	}
	t.recorder.record(nil)
	return t.body.Close()
}

// drain reads a reply to its end, so that its history is complete.
func drain(resp *http.Response) {
	if resp.Body != nil {
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
}

// corrupt overwrites the second half of a body. It reads the body, up to 32 MiB, to know its length.
func corrupt(resp *http.Response) {
	if resp.Body == nil {
		return
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAltered))
	wire.CorruptBody(body)
	rest := resp.Body
	var tail io.Reader = rest
	if err != nil {
		tail = errorReader{err}
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), tail), rest}
}

type errorReader struct{ err error }

func (f errorReader) Read([]byte) (int, error) { return 0, f.err }
