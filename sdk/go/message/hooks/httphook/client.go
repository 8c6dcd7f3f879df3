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

	"faultloom.dev/go/message/hooks/faults"
	"faultloom.dev/go/message/scope"
	"faultloom.dev/go/message/wire"
)

// Transport returns a RoundTripper whose requests carry the envelope of their context's scope. Requests without a scope
// are passed to base unchanged. A nil base means http.DefaultTransport.
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

// CloseIdleConnections is called by http.Client.CloseIdleConnections.
func (t transport) CloseIdleConnections() {
	if c, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// RoundTrip sends one request with next; see Transport. With two hooks in one client, the inner one finds an envelope
// in the request and does nothing.
func RoundTrip(r *http.Request, next func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	s, origin := scope.ForCall(r.Context())
	if origin == scope.NoOrigin || r.URL == nil || len(r.Header[wire.HTTPHeader]) > 0 {
		return next(r)
	}
	if s == nil {
		return sendLost(r, next)
	}
	address := authority(r)
	c := describe(r, s.Process().PeerName(address))
	if s.Envelope().History && canReadTail(r) {
		c.Accept = wire.AcceptTail
	}
	begin := (*scope.Scope).BeginCall
	if origin == scope.FromGoroutine {
		begin = (*scope.Scope).BeginInheritedCall
	}
	call, ok := begin(s, s.Now(), c)
	if !ok {
		if origin == scope.FromGoroutine { // the scope has just finished
			return sendLost(r, next)
		}
		return next(r)
	}
	if call.Fault != nil {
		if sends, resp, err := applyFault(s, &call, r, address); !sends {
			closeBody(r)
			return resp, err
		}
	}
	timer := new(connectTimer)
	r2 := timer.trace(r)
	if call.Envelope != "" { // an envelope that is too large is not sent, but the request is
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
		if s.Envelope().History && c.Procedure != "" && !wire.AcceptsTrailers(r.Header) {
			r2.Header["Te"] = append(r.Header["Te"][:len(r.Header["Te"]):len(r.Header["Te"])], "trailers")
		}
		r2.Header[wire.HTTPHeader] = []string{base64.RawURLEncoding.EncodeToString([]byte(call.Envelope))}
	}
	resp, err := next(r2)
	if resp != nil && resp.Request == r2 {
		resp.Request = r
	}
	timer.record(s, call.Number, err != nil)
	return finishCall(s, &call, r, resp, err, address)
}

// sendLost sends a request that belongs to no request, while a scope is open.
func sendLost(r *http.Request, next func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	scope.CountLost(describe(r, authority(r)))
	counted := r.WithContext(scope.WithCounted(r.Context()))
	resp, err := next(counted)
	if resp != nil && resp.Request == counted {
		resp.Request = r
	}
	return resp, err
}

func describe(r *http.Request, peer string) scope.Call {
	method := r.Method
	if method == "" {
		method = http.MethodGet
	}
	procedure, _ := wire.ProcedureName(method, r.URL, r.Header)
	return scope.Call{HTTP: true, Peer: peer, Name: wire.RawHTTPName(method, r.URL.EscapedPath()), Procedure: procedure}
}

// canReadTail reports whether the client could remove a tail: the program must not decompress the body itself, and the
// format must allow a tail.
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

// applyFault waits as long as the call's fault requires. If the request is not to be sent, sends is false, the end of
// the call is recorded, and the reply or the error is what the caller gets.
func applyFault(s *scope.Scope, call *scope.OutgoingCall, r *http.Request, address string) (sends bool, resp *http.Response, err error) {
	effect, err := faults.EffectAfterWait(r.Context(), s, faults.HTTP, call.Fault)
	if err != nil {
		s.RecordFailure(s.Now(), call.Number, scope.CallEnd{Status: failureCode(err)})
		return false, nil, err
	}
	if effect.Sends {
		return true, nil, nil
	}
	faults.RecordUnsent(s, call.Number, effect)
	switch effect.Outcome {
	case faults.Status:
		return false, statusReply(int(effect.Status), r), nil
	case faults.Refused:
		return false, nil, &net.OpError{Op: "dial", Net: "tcp", Addr: netAddr(address), Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	case faults.Reset:
		return false, nil, resetError(address)
	default:
		return false, nil, context.DeadlineExceeded
	}
}

// statusReply returns a reply with a status and an empty body.
func statusReply(status int, r *http.Request) *http.Response {
	return &http.Response{Status: strconv.Itoa(status) + " " + http.StatusText(status), StatusCode: status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{"Content-Length": {"0"}}, Body: http.NoBody, Request: r}
}

type netAddr string

func (netAddr) Network() string  { return "tcp" }
func (a netAddr) String() string { return string(a) }

func resetError(address string) error {
	return &net.OpError{Op: "read", Net: "tcp", Addr: netAddr(address), Err: os.NewSyscallError("read", syscall.ECONNRESET)}
}

// failureCode returns the gRPC code of a call that ended without a reply.
func failureCode(err error) uint64 {
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, context.Canceled):
		return faults.CodeCanceled
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return faults.CodeDeadline
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return faults.CodeUnavailable
	}
	return faults.CodeUnknown
}

// finishCall records how a call ended, or arranges that its reader does so when the tail has come, and applies the
// call's fault to the reply.
func finishCall(s *scope.Scope, call *scope.OutgoingCall, r *http.Request, resp *http.Response, err error, address string) (*http.Response, error) {
	if err != nil {
		effect := faults.ReplyEffect(faults.HTTP, call.Fault, faults.Result{Failed: true, Status: failureCode(err)})
		s.RecordFailure(s.Now(), call.Number, scope.CallEnd{Status: effect.RecordedStatus, Gap: effect.Gap})
		return resp, err
	}
	effect := faults.ReplyEffect(faults.HTTP, call.Fault, faults.Result{Status: uint64(resp.StatusCode)})
	rec := &callRecorder{scope: s, number: call.Number, status: effect.RecordedStatus, failed: effect.RecordsFailure}
	switch carrier := removeHeaders(resp, rec); {
	case carrier == "tail" && resp.Body != nil:
		readTail(resp, rec)
	case carrier == "trailer" && resp.Body != nil:
		readTrailer(resp, rec)
	default:
		rec.record(nil)
	}
	if wire.IsFramed(resp.Header) && resp.Body != nil {
		alterFrames(r, resp, effect.Outcome)
		if effect.Outcome == faults.Reset {
			return nil, resetError(address)
		}
		return resp, nil
	}
	switch effect.Outcome {
	case faults.Reset:
		drain(resp)
		return nil, resetError(address)
	case faults.Empty:
		drain(resp)
		resp.Body, resp.ContentLength = http.NoBody, 0
		if resp.Header["Content-Length"] != nil {
			resp.Header["Content-Length"] = []string{"0"}
		}
	case faults.Corrupt:
		corrupt(resp)
	}
	return resp, nil
}

// readTail makes the body of a reply end before its tail. A reply with a length was complete when its headers left,
// so all of it has been sent. It is read at once if it arrives in time, and a fault that depends on its history can
// fire at the program's next call.
func readTail(resp *http.Response, rec *callRecorder) {
	body := newTailReader(resp.Body, rec)
	rec.scope.ReplyStarted(rec.number, rec.status)
	length := resp.ContentLength
	resp.Body, resp.ContentLength = body, -1
	delete(resp.Header, "Content-Length")
	if length >= 0 && length <= maxPrefetch && body.prefetch() && body.err == io.EOF {
		resp.ContentLength = int64(len(body.buf) - body.start)
	}
}

// removeHeaders removes the SDK's headers from a reply. It returns "tail" or "trailer" if that is to carry the history.
// A history in a header goes to rec.
func removeHeaders(resp *http.Response, rec *callRecorder) (carrier string) {
	h := resp.Header
	if v := h[wire.HistoryHeader]; len(v) > 0 {
		rec.history = takeHistory(h)
	}
	if v := h[wire.ReplyHeader]; len(v) > 0 {
		switch mark := wire.LastValue(v); {
		case mark == "tail" && wire.MayHaveTail(resp.StatusCode) && len(h["Content-Encoding"]) == 0, mark == "trailer":
			carrier = mark
		}
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
	return carrier
}

// takeHistory removes the history from headers or trailers and returns it, or nil.
func takeHistory(h http.Header) []byte {
	b, err := base64.RawURLEncoding.DecodeString(wire.LastValue(h[wire.HistoryHeader]))
	delete(h, wire.HistoryHeader)
	if err != nil || len(b) == 0 {
		return nil
	}
	return b
}
