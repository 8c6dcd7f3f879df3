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
	maxEager   = 256 << 10 // a reply of at most this length is read at once when it announces a tail
	maxDrain   = 256 << 10 // how much Close reads to find the tail of a body the program did not read to its end …
	drainFor   = 50 * time.Millisecond
	readChunk  = 8 << 10
	maxTail    = wire.MaxHistoryBytes + 8
	maxAltered = 32 << 20 // how much of a body a fault holds in memory
)

// recorder records the end of one call, once.
type recorder struct {
	scope   *scope.Scope
	call    uint64
	status  uint64
	failed  bool
	history []byte
	over    atomic.Bool
}

func (r *recorder) done(history []byte) {
	if r.over.Swap(true) {
		return
	}
	if history == nil {
		history = r.history
	}
	end := scope.End{Status: r.status, History: history, Gap: history == nil}
	if r.failed {
		r.scope.Failed(r.scope.Now(), r.call, end)
	} else {
		r.scope.Reply(r.scope.Now(), r.call, end)
	}
}

// tailReader cuts a tail off a body while it streams. Where the tail begins is only certain at the end, so it holds back
// from the first place that could be its beginning: byte 0x01, flags, a short name. Text never looks like that; in
// binary data most candidates fall within a few bytes, and one that stands is given up after the largest possible tail.
type tailReader struct {
	body io.ReadCloser
	rec  *recorder

	mu    sync.Mutex // held while reading; Close must not wait for a read that it is meant to end
	buf   []byte     // buf[start:] was read and not handed out
	start int
	free  int // buf[start:free] can be handed out
	err   error
}

func newTailReader(body io.ReadCloser, rec *recorder) *tailReader {
	return &tailReader{body: body, rec: rec}
}

func (t *tailReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.free == t.start {
		if t.err != nil {
			return 0, t.err
		}
		t.fill()
	}
	n := copy(p, t.buf[t.start:t.free])
	t.start += n
	return n, nil
}

// fill reads once and decides how much of the buffer is body.
func (t *tailReader) fill() {
	if t.start > 0 {
		t.buf = t.buf[:copy(t.buf, t.buf[t.start:])]
		t.free -= t.start
		t.start = 0
	}
	if cap(t.buf)-len(t.buf) < readChunk {
		t.buf = append(make([]byte, 0, 2*cap(t.buf)+readChunk), t.buf...)
	}
	n, err := t.body.Read(t.buf[len(t.buf):cap(t.buf)])
	t.buf = t.buf[:len(t.buf)+n]
	if err != nil {
		t.end(err)
		return
	}
	t.release()
	// a complete tail of our own call cannot be anything else: what the program does next may depend on it
	if body, history := wire.CutTail(t.buf[t.free:]); history != nil && len(body) == 0 && t.ownCall(history) {
		t.rec.done(append([]byte(nil), history...))
	}
}

func (t *tailReader) ownCall(history []byte) bool {
	id, _, err := wire.SplitHistory(history)
	return err == nil && id == wire.CallID(t.rec.scope.Envelope().Call, t.rec.call)
}

// end settles what is held back once the body has ended.
func (t *tailReader) end(err error) {
	t.err = err
	t.free = len(t.buf)
	var history []byte
	if err == io.EOF {
		var body []byte
		if body, history = wire.CutTail(t.buf[t.start:]); history != nil {
			t.free = t.start + len(body)
			t.buf = t.buf[:t.free]
		}
	}
	t.rec.done(history)
}

// release moves free to the first byte that could begin a tail.
func (t *tailReader) release() {
	for {
		i := bytes.IndexByte(t.buf[t.free:], wire.Version)
		if i < 0 {
			t.free = len(t.buf)
			return
		}
		t.free += i
		held := t.buf[t.free:]
		if len(held) <= maxTail && couldBegin(held) {
			return
		}
		t.free++
	}
}

// couldBegin tells whether b can be the beginning of a tail, as far as it goes.
func couldBegin(b []byte) bool {
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

// prefetch reads to the end.
func (t *tailReader) prefetch() {
	for t.err == nil {
		t.fill()
	}
}

// Close looks for the tail in what is left, if that is short and already here, since programs that parse a body rarely
// read to its end. Else the history is a gap.
func (t *tailReader) Close() error {
	if !t.mu.TryLock() {
		t.rec.done(nil)
		return t.body.Close()
	}
	defer t.mu.Unlock()
	if t.err == nil && !t.rec.over.Load() {
		stop := time.AfterFunc(drainFor, func() { t.body.Close() })
		for left := maxDrain; t.err == nil && left > 0 && !t.rec.over.Load(); {
			t.start = t.free
			held := len(t.buf) - t.start
			t.fill()
			left -= max(1, len(t.buf)-held)
		}
		stop.Stop()
	}
	t.buf, t.start, t.free = nil, 0, 0
	if t.err == nil {
		t.err = http.ErrBodyReadAfterClose
	}
	t.rec.done(nil)
	return t.body.Close()
}

// drain reads a reply to its end, so that the callee's history is complete.
func drain(resp *http.Response) {
	if resp.Body != nil {
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
}

// corrupt replaces the second half of a body. Its length must be known first, so it is read, up to 32 MiB.
func corrupt(resp *http.Response) {
	if resp.Body == nil {
		return
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAltered))
	wire.Corrupt(body)
	rest := resp.Body
	var tail io.Reader = rest
	if err != nil {
		tail = failing{err}
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), tail), rest}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
