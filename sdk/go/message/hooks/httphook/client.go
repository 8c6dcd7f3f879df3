package httphook

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"

	"faultloom.dev/go/message/scope"
	"faultloom.dev/go/message/wire"
)

// gRPC codes, which a CALL_FAILED always has.
const (
	canceled    = 1
	unknown     = 2
	deadline    = 4
	unavailable = 14
)

// Transport returns a RoundTripper whose requests carry the envelope of their context's scope. Requests without one are
// passed to base as they are. A nil base means http.DefaultTransport.
func Transport(base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return transport{base}
}

type transport struct{ base http.RoundTripper }

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	return RoundTrip(r, t.base.RoundTrip)
}

// CloseIdleConnections is what http.Client.CloseIdleConnections looks for.
func (t transport) CloseIdleConnections() {
	if c, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// RoundTrip sends one request by next; see Transport. Under two hooks the inner one finds an envelope already there and
// stays out of the way.
func RoundTrip(r *http.Request, next func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	s := scope.Current(r.Context())
	if s == nil || r.URL == nil || len(r.Header[wire.HTTPHeader]) > 0 {
		return next(r)
	}
	address := authority(r)
	method := r.Method
	if method == "" {
		method = http.MethodGet
	}
	send := scope.Call{HTTP: true, Peer: s.Process().PeerName(address), Name: wire.RawHTTPName(method, r.URL.EscapedPath())}
	if s.Envelope().History && canReadTail(r) {
		send.Accept = wire.AcceptTail
	}
	call, ok := s.BeginCall(s.Now(), send)
	if !ok {
		return next(r)
	}
	if call.Fault != nil {
		if over, resp, err := before(s, &call, r, address); over {
			closeBody(r)
			return resp, err
		}
	}
	r2 := new(http.Request)
	*r2 = *r
	if call.Envelope != "" { // else it is too large: the call itself must still happen
		r2.Header = make(http.Header, len(r.Header)+1)
		for k, v := range r.Header {
			r2.Header[k] = v
		}
		if s.Envelope().Bridge {
			traceparent, baggage := s.InjectBridge(&call, r.Header.Get(wire.TraceparentKey), strings.Join(r.Header["Baggage"], ","))
			r2.Header["Traceparent"] = []string{traceparent}
			if delete(r2.Header, "Baggage"); baggage != "" {
				r2.Header["Baggage"] = []string{baggage}
			}
		}
		r2.Header[wire.HTTPHeader] = []string{base64.RawURLEncoding.EncodeToString([]byte(call.Envelope))}
	}
	resp, err := next(r2)
	if resp != nil && resp.Request == r2 {
		resp.Request = r
	}
	return finishCall(s, &call, r, resp, err, address)
}

// tailReachesUs tells whether a tail could be cut off again: not if the program decompresses by itself, and not where
// the format forbids it.
func canReadTail(r *http.Request) bool {
	if r.Method == http.MethodHead || len(r.Header["Range"]) > 0 || len(r.Header["Upgrade"]) > 0 {
		return false
	}
	for _, v := range r.Header["Accept-Encoding"] {
		if !strings.EqualFold(strings.TrimSpace(v), "identity") {
			return false
		}
	}
	return true
}

func authority(r *http.Request) string {
	host := r.URL.Host
	if r.URL.Port() != "" || host == "" {
		return host
	}
	if r.URL.Scheme == "https" {
		return host + ":443"
	}
	return host + ":80"
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		r.Body.Close()
	}
}

// before plays the faults that act before the request is sent. over tells that it is not sent at all.
func before(s *scope.Scope, call *scope.OutgoingCall, r *http.Request, address string) (over bool, resp *http.Response, err error) {
	f := call.Fault
	fail := func(code uint64, err error) (bool, *http.Response, error) {
		s.RecordFailure(s.Now(), call.Number, scope.CallEnd{Status: code})
		return true, nil, err
	}
	switch f.Kind {
	case wire.Unavailable:
		return fail(unavailable, &net.OpError{Op: "dial", Net: "tcp", Addr: netAddr(address), Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)})
	case wire.Reset:
		return fail(unavailable, resetError(address))
	case wire.Deadline:
		return fail(deadline, context.DeadlineExceeded)
	case wire.Status:
		s.RecordReply(s.Now(), call.Number, scope.CallEnd{Status: f.Arg})
		code := http.StatusInternalServerError // what cannot be arrives as 500
		if f.Arg >= 200 && f.Arg <= 999 {
			code = int(f.Arg)
		}
		return true, &http.Response{Status: strconv.Itoa(code) + " " + http.StatusText(code), StatusCode: code,
			Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{"Content-Length": {"0"}}, Body: http.NoBody, Request: r}, nil
	case wire.Hang:
		if err := s.WaitForFault(r.Context(), f); err != nil {
			return fail(failureCode(err), err)
		}
		return fail(deadline, context.DeadlineExceeded)
	case wire.Delay:
		if err := s.WaitForFault(r.Context(), f); err != nil {
			return fail(failureCode(err), err)
		}
	}
	return false, nil, nil
}

type netAddr string

func (netAddr) Network() string  { return "tcp" }
func (a netAddr) String() string { return string(a) }

func resetError(address string) error {
	return &net.OpError{Op: "read", Net: "tcp", Addr: netAddr(address), Err: os.NewSyscallError("read", syscall.ECONNRESET)}
}

// failureCode is the gRPC code of a call that ended without a reply.
func failureCode(err error) uint64 {
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, context.Canceled):
		return canceled
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return deadline
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return unavailable
	}
	return unknown
}

// after records how a call ended, or arranges for that to happen when the tail has come.
func finishCall(s *scope.Scope, call *scope.OutgoingCall, r *http.Request, resp *http.Response, err error, address string) (*http.Response, error) {
	var kind wire.Kind
	if call.Fault != nil {
		kind = call.Fault.Kind
	}
	if err != nil {
		s.RecordFailure(s.Now(), call.Number, scope.CallEnd{Status: failureCode(err), Gap: true})
		return resp, err
	}
	rec := &callRecorder{scope: s, number: call.Number, status: uint64(resp.StatusCode), failed: kind == wire.LostReply}
	if rec.failed {
		rec.status = unavailable
	}
	tail := removeHeaders(resp, rec)
	if tail && resp.Body != nil {
		cut := newTailReader(resp.Body, rec)
		s.ReplyStarted(call.Number, rec.status)
		known := resp.ContentLength
		resp.Body, resp.ContentLength = cut, -1
		delete(resp.Header, "Content-Length")
		if known >= 0 && known <= maxPrefetch {
			// a length means that the callee had finished: everything is on its way, and reading it now lets what the program
			// does next depend on it
			cut.prefetch()
			if cut.err == io.EOF {
				resp.ContentLength = int64(len(cut.buf) - cut.start)
			}
		}
	} else {
		rec.record(nil)
	}
	switch kind {
	case wire.LostReply:
		drain(resp)
		return nil, resetError(address)
	case wire.EmptyReply:
		drain(resp)
		resp.Body, resp.ContentLength = http.NoBody, 0
		if resp.Header["Content-Length"] != nil {
			resp.Header["Content-Length"] = []string{"0"}
		}
	case wire.CorruptReply:
		corrupt(resp)
	}
	return resp, nil
}

// takeHeaders removes ours from a reply. tail tells that the body has one; else what came in a header is noted.
func removeHeaders(resp *http.Response, rec *callRecorder) (tail bool) {
	h := resp.Header
	if v := h[wire.HistoryHeader]; len(v) > 0 {
		if b, err := base64.RawURLEncoding.DecodeString(v[len(v)-1]); err == nil {
			rec.history = b
		}
		delete(h, wire.HistoryHeader)
	}
	if v := h[wire.ReplyHeader]; len(v) > 0 {
		tail = v[0] == "tail" && len(h["Content-Encoding"]) == 0
		delete(h, wire.ReplyHeader)
	}
	if vary := h["Vary"]; len(vary) > 0 {
		kept := vary[:0:0]
		for _, v := range vary {
			if v != "x-faultloom" {
				kept = append(kept, v)
			}
		}
		if len(kept) == 0 {
			delete(h, "Vary")
		} else {
			h["Vary"] = kept
		}
	}
	return tail
}
