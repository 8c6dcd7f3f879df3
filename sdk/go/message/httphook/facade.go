package httphook

import (
	"bufio"
	"net"
	"net/http"
	"time"
)

// facade gives the handler a writer with the same optional interfaces as the one below: programs ask for them by type
// assertion, so having too many is as wrong as having too few.
func (w *writer) facade() http.ResponseWriter {
	_, f := w.under.(http.Flusher)
	_, h := w.under.(http.Hijacker)
	_, p := w.under.(http.Pusher)
	switch {
	case f && h && p:
		return struct {
			*writer
			flusher
			hijacker
			pusher
		}{w, flusher{w}, hijacker{w}, pusher{w}}
	case f && h:
		return struct {
			*writer
			flusher
			hijacker
		}{w, flusher{w}, hijacker{w}}
	case f && p:
		return struct {
			*writer
			flusher
			pusher
		}{w, flusher{w}, pusher{w}}
	case h && p:
		return struct {
			*writer
			hijacker
			pusher
		}{w, hijacker{w}, pusher{w}}
	case f:
		return struct {
			*writer
			flusher
		}{w, flusher{w}}
	case h:
		return struct {
			*writer
			hijacker
		}{w, hijacker{w}}
	case p:
		return struct {
			*writer
			pusher
		}{w, pusher{w}}
	}
	return w
}

type flusher struct{ w *writer }

func (f flusher) Flush() { _ = f.w.FlushError() }

type hijacker struct{ w *writer }

func (h hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) { return h.w.hijack() }

type pusher struct{ w *writer }

func (p pusher) Push(target string, opts *http.PushOptions) error { return p.w.push(target, opts) }

// What http.ResponseController offers reaches the connection directly; there is no Unwrap, which would let a flush pass
// by the buffer.

func (w *writer) SetReadDeadline(t time.Time) error {
	return http.NewResponseController(w.under).SetReadDeadline(t)
}

func (w *writer) SetWriteDeadline(t time.Time) error {
	return http.NewResponseController(w.under).SetWriteDeadline(t)
}

func (w *writer) EnableFullDuplex() error {
	return http.NewResponseController(w.under).EnableFullDuplex()
}
