package httphook

import (
	"net/http"
	"strings"

	"faultloom.dev/go/message/scope"
	"faultloom.dev/go/message/wire"
)

// Handler returns a handler that serves a request with next, within a scope if the request has an acceptable envelope
// or is sampled. Other requests are passed to next unchanged. A nil process means scope.ThisProcess.
func Handler(next http.Handler, p *scope.Process) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !Serve(next, w, r, p) {
			next.ServeHTTP(w, r)
		}
	})
}

// Serve serves one request within a scope; see Handler. It returns false, and has done nothing, if the request is not
// traced. With two hooks in one server, the inner one does nothing.
func Serve(next http.Handler, w http.ResponseWriter, r *http.Request, p *scope.Process) bool {
	if p == nil {
		p = scope.ThisProcess()
	}
	envelopes := r.Header[wire.HTTPHeader]
	sampled := false
	if len(envelopes) == 0 && !wire.MayContainBridge(r.Header["Baggage"]) {
		if sampled = p.Sampler.Sample(); !sampled {
			scope.EnterUntraced()
			return false
		}
	}
	// without trust settings, not even the header is removed
	if p.Receiver.Settings() == nil || (len(envelopes) == 0 && scope.Current(r.Context()) != nil) {
		return false
	}
	in := scope.IncomingRequest{HTTP: true, Sampled: sampled, Traceparent: r.Header.Get(wire.TraceparentKey)}
	if len(envelopes) > 0 {
		in.Envelope, in.HasEnvelope = wire.LastValue(envelopes), true
		delete(r.Header, wire.HTTPHeader) // accepted or refused, the program must not forward it
	} else {
		in.Baggage = strings.Join(r.Header["Baggage"], ",")
	}
	s := new(scope.Scope)
	if !p.OpenScope(s, in) {
		scope.EnterUntraced()
		return false
	}
	name, isRPC := wire.ProcedureName(r.Method, r.URL, r.Header)
	defer s.Leave(s.Enter())
	r2 := r.WithContext(scope.With(r.Context(), s))
	s.SetServedPath(r.URL.EscapedPath()) // before the program can change it
	rw := &replyWriter{underlying: w, request: r, scope: s, isRPC: isRPC}
	if !s.ReturnsHistory() { // the writer only needs the status
		rw.committed, rw.declaredLength = true, -1
	}
	// net/http ends the reply after a panic as it would without the SDK: what is still buffered is not sent
	next.ServeHTTP(rw.withInterfaces(), r2)
	if !isRPC {
		name = callName(s, r2)
	}
	rw.finish(name)
	return true
}
