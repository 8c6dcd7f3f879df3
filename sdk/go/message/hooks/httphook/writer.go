package httphook

import (
	"bufio"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"strconv"

	"faultloom.dev/go/message/scope"
	"faultloom.dev/go/message/wire"
)

// maxBuffered is how many bytes of a reply are buffered. Most replies are then complete, and so is their history,
// before their headers are sent.
const maxBuffered = 32 << 10

// replyWriter buffers a reply until it is complete, the buffer is full, or the handler flushes or hijacks.
//
//	buffering ──WriteHeader: status and headers are stored──▶ buffering
//	buffering ──finish──▶ header | tail | trailer | truncated header, then the body
//	buffering ──overflow, Flush──▶ committed: tail or trailer announced, or "gap" ──finish──▶ tail, trailer, or nothing
//	buffering ──Hijack──▶ hijacked: the handler owns the connection
//
// If the reply carries no history, the writer is committed from the beginning.
type replyWriter struct {
	underlying http.ResponseWriter
	request    *http.Request
	scope      *scope.Scope
	isRPC      bool

	status         int         // 0: not decided yet
	header         http.Header // as it was when the status was decided
	buf            []byte
	committed      bool
	tail           bool // announced
	trailer        bool // announced
	hijacked       bool
	declaredLength int64 // the handler's Content-Length when a tail took it off the wire, else -1
	written        int64
}

func (w *replyWriter) Header() http.Header { return w.underlying.Header() }

func (w *replyWriter) WriteHeader(status int) {
	if w.committed || w.hijacked || (status >= 100 && status < 200) {
		if w.status == 0 && (status < 100 || status >= 200) {
			w.status = status
		}
		w.underlying.WriteHeader(status) // logs a second status, as without the SDK
		return
	}
	if w.status != 0 {
		return
	}
	w.status = status
	w.header = w.underlying.Header().Clone() // net/http ignores later changes, too
	if w.header == nil {
		w.header = http.Header{}
	}
}

func (w *replyWriter) Write(p []byte) (int, error) {
	if w.hijacked {
		return w.underlying.Write(p)
	}
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if !w.committed {
		if !bodyAllowed(w.status) && len(p) > 0 {
			return 0, http.ErrBodyNotAllowed
		}
		if len(w.buf)+len(p) <= maxBuffered {
			w.buf = append(w.buf, p...)
			return len(p), nil
		}
		w.commit(p)
	}
	return w.send(p)
}

func (w *replyWriter) WriteString(s string) (int, error) {
	if w.committed && !w.tail && w.status != 0 {
		return io.WriteString(w.underlying, s)
	}
	return w.Write([]byte(s))
}

// send writes after committed headers. It enforces the handler's Content-Length if the header was removed for a tail.
func (w *replyWriter) send(p []byte) (int, error) {
	if w.declaredLength >= 0 && w.written+int64(len(p)) > w.declaredLength {
		return 0, http.ErrContentLength
	}
	n, err := w.underlying.Write(p)
	w.written += int64(n)
	return n, err
}

// ReadFrom fills the buffer and copies the rest with the underlying writer, which may use sendfile.
func (w *replyWriter) ReadFrom(src io.Reader) (n int64, err error) {
	if !w.committed && !w.hijacked {
		if w.status == 0 {
			w.WriteHeader(http.StatusOK)
		}
		if !bodyAllowed(w.status) {
			return io.Copy(struct{ io.Writer }{w}, src)
		}
		for len(w.buf) < maxBuffered {
			if cap(w.buf) == len(w.buf) {
				w.buf = append(w.buf, make([]byte, max(512, min(len(w.buf), maxBuffered-len(w.buf))))...)[:len(w.buf)]
			}
			m, err := src.Read(w.buf[len(w.buf):min(cap(w.buf), maxBuffered)])
			w.buf, n = w.buf[:len(w.buf)+m], n+int64(m)
			if err == io.EOF {
				return n, nil
			}
			if err != nil {
				return n, err
			}
		}
		w.commit(nil)
	}
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.declaredLength >= 0 {
		src = io.LimitReader(src, w.declaredLength-w.written)
	}
	m, err := io.Copy(w.underlying, src)
	w.written += m
	return n + m, err
}

// commit sends the headers before the history is complete. next is the part of the body that will be written next.
func (w *replyWriter) commit(next []byte) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	w.committed = true
	w.declaredLength = -1
	env := w.scope.Envelope()
	h := w.header
	if !wire.IsStreamed(h) && wire.AllowsTail(env.Accept, w.request.Method, w.request.Header, w.status, h) {
		w.tail = true
		if v := h.Get("Content-Length"); v != "" {
			if n, err := strconv.ParseInt(v, 10, 64); err == nil {
				w.declaredLength = n
			}
			h.Del("Content-Length")
		}
		disableCaching(h)
		h.Set(wire.ReplyHeader, "tail")
	} else {
		w.announceTrailer(h)
	}
	if len(w.buf) > 0 {
		next = w.buf
	}
	w.sniff(h, next)
	w.sendHead(h)
	buf := w.buf
	w.buf = nil
	if len(buf) > 0 {
		w.send(buf)
	}
}

// sniff sets the content type by the body alone, since net/http would include the tail.
func (w *replyWriter) sniff(h http.Header, body []byte) {
	if _, ok := h["Content-Type"]; ok || h.Get("Content-Encoding") != "" || h.Get("Transfer-Encoding") != "" || !w.tail {
		return
	}
	if len(body) == 0 {
		h["Content-Type"] = nil
		return
	}
	h.Set("Content-Type", http.DetectContentType(body))
}

// disableCaching keeps caches from storing a reply that carries a history.
func disableCaching(h http.Header) {
	h["Cache-Control"] = []string{"no-store, no-transform"}
	h.Add("Vary", "x-faultloom")
}

// sendHead sends the headers h. Headers that the handler has set since remain in the map, for trailers.
func (w *replyWriter) sendHead(h http.Header) {
	live := w.underlying.Header()
	var later http.Header
	if announcesTrailers(live) {
		later = live.Clone()
	}
	clear(live)
	for k, v := range h {
		live[k] = v
	}
	w.underlying.WriteHeader(w.status)
	for k, v := range later {
		live[k] = v
	}
}

func announcesTrailers(h http.Header) bool {
	if len(h["Trailer"]) > 0 {
		return true
	}
	for k := range h {
		if len(k) > len(http.TrailerPrefix) && k[:len(http.TrailerPrefix)] == http.TrailerPrefix {
			return true
		}
	}
	return false
}

// finish completes the reply when the handler has returned.
func (w *replyWriter) finish(name string) {
	status := w.status
	if status == 0 {
		status = http.StatusOK
	}
	if w.hijacked {
		return
	}
	history := w.scope.Finish(w.scope.Now(), uint64(status), name)
	if !w.committed {
		w.finishBuffered(history)
		return
	}
	if w.declaredLength >= 0 && w.written != w.declaredLength {
		panic(http.ErrAbortHandler) // the body is too short, for which net/http closes the connection
	}
	if w.trailer {
		setTrailer(w.underlying.Header(), history)
	} else if w.tail && history != nil { // without a history there is no tail: the caller's body ends here
		w.underlying.Write(wire.AppendTail(nil, history))
	}
}

func (w *replyWriter) finishBuffered(history []byte) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	env := w.scope.Envelope()
	h := w.header
	length := h.Get("Content-Length")
	small := len(history) <= wire.MaxHeaderBytes
	if !small && !announcesTrailers(w.underlying.Header()) && (length == "" || length == strconv.Itoa(len(w.buf))) && wire.AllowsTail(env.Accept, w.request.Method, w.request.Header, w.status, h) {
		w.tail = true
		w.sniff(h, w.buf)
		disableCaching(h)
		h.Set(wire.ReplyHeader, "tail")
		// the length marks the end of the whole reply for the client
		h.Set("Content-Length", strconv.Itoa(len(w.buf)+wire.TailLength(len(history))))
		w.sendHead(h)
		w.underlying.Write(wire.AppendTail(w.buf, history))
		return
	}
	if !small && w.mayUseTrailer(h) {
		disableCaching(h)
		w.announceTrailer(h)
		setTrailer(h, history) // before the head, so that net/http adds no length
		w.sendHead(h)
		setTrailer(w.underlying.Header(), history)
		w.underlying.Write(w.buf)
		return
	}
	if !small {
		history, _ = wire.TruncateHistory(history, wire.MaxHeaderBytes)
	}
	if history != nil {
		disableCaching(h)
		h.Set(wire.HistoryHeader, base64.RawURLEncoding.EncodeToString(history))
	} else {
		h.Set(wire.ReplyHeader, "gap")
	}
	w.sendHead(h)
	if len(w.buf) > 0 {
		w.underlying.Write(w.buf)
	}
}

// mayUseTrailer reports whether a trailer can carry the history. Only RPCs need it, since their bodies cannot have a
// tail, or their clients decode the bodies themselves. A reply of HTTP/1.1 with a length has no trailers.
func (w *replyWriter) mayUseTrailer(h http.Header) bool {
	return w.isRPC && wire.AcceptsTrailers(w.request.Header) && bodyAllowed(w.status) &&
		(w.request.ProtoMajor > 1 || h.Get("Content-Length") == "")
}

// announceTrailer announces the history in a trailer, or, if it cannot have one, a gap.
func (w *replyWriter) announceTrailer(h http.Header) {
	w.trailer = w.mayUseTrailer(h)
	if w.trailer {
		disableCaching(h)
		h.Set(wire.ReplyHeader, "trailer")
	} else {
		h.Set(wire.ReplyHeader, "gap")
	}
}

func setTrailer(h http.Header, history []byte) {
	if history, _ = wire.TruncateHistory(history, wire.MaxTrailerBytes); history != nil {
		h.Set(http.TrailerPrefix+wire.HistoryHeader, base64.RawURLEncoding.EncodeToString(history))
	}
}

func bodyAllowed(status int) bool {
	return status != http.StatusNoContent && status != http.StatusNotModified
}

// FlushError sends what is buffered. http.ResponseController calls it.
func (w *replyWriter) FlushError() error {
	if !w.committed && !w.hijacked {
		w.commit(nil)
	}
	return http.NewResponseController(w.underlying).Flush()
}

func (w *replyWriter) hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.underlying).Hijack()
	if err == nil {
		w.hijacked = true
	}
	return conn, rw, err
}

func (w *replyWriter) push(target string, opts *http.PushOptions) error {
	if p, ok := w.underlying.(http.Pusher); ok {
		return p.Push(target, opts)
	}
	return http.ErrNotSupported
}

// CloseNotify is for programs that use the deprecated http.CloseNotifier.
func (w *replyWriter) CloseNotify() <-chan bool {
	if n, ok := w.underlying.(interface{ CloseNotify() <-chan bool }); ok {
		return n.CloseNotify()
	}
	return make(chan bool)
}
