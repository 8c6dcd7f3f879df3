package httphook

import (
	"bufio"
	"net"
	"net/http"
	"time"
)

// withInterfaces returns the writer with exactly the optional interfaces of the underlying one: programs test for them
// by type assertion, so one too many is as wrong as one too few.
func (w *replyWriter) withInterfaces() http.ResponseWriter {
	_, f := w.underlying.(http.Flusher)
	_, h := w.underlying.(http.Hijacker)
	_, p := w.underlying.(http.Pusher)
	switch {
	case f && h && p:
		return struct {
			*replyWriter
			flusher
			hijacker
			pusher
		}{w, flusher{w}, hijacker{w}, pusher{w}}
	case f && h:
		return struct {
			*replyWriter
			flusher
			hijacker
		}{w, flusher{w}, hijacker{w}}
	case f && p:
		return struct {
			*replyWriter
			flusher
			pusher
		}{w, flusher{w}, pusher{w}}
	case h && p:
		return struct {
			*replyWriter
			hijacker
			pusher
		}{w, hijacker{w}, pusher{w}}
	case f:
		return struct {
			*replyWriter
			flusher
		}{w, flusher{w}}
	case h:
		return struct {
			*replyWriter
			hijacker
		}{w, hijacker{w}}
	case p:
		return struct {
			*replyWriter
			pusher
		}{w, pusher{w}}
	}
	return w
}

type flusher struct{ w *replyWriter }

func (f flusher) Flush() { _ = f.w.FlushError() }

type hijacker struct{ w *replyWriter }

func (h hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) { return h.w.hijack() }

type pusher struct{ w *replyWriter }

func (p pusher) Push(target string, opts *http.PushOptions) error { return p.w.push(target, opts) }

// The methods of http.ResponseController go to the connection directly. There is no Unwrap, since a flush would then
// bypass the buffer.

func (w *replyWriter) SetReadDeadline(t time.Time) error {
	return http.NewResponseController(w.underlying).SetReadDeadline(t)
}

func (w *replyWriter) SetWriteDeadline(t time.Time) error {
	return http.NewResponseController(w.underlying).SetWriteDeadline(t)
}

func (w *replyWriter) EnableFullDuplex() error {
	return http.NewResponseController(w.underlying).EnableFullDuplex()
}
