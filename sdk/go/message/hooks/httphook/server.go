package httphook

import (
	"net/http"
	"strings"

	"faultloom.dev/go/message/scope"
	"faultloom.dev/go/message/wire"
)

// Handler returns a handler that opens a scope for every request with an acceptable envelope, or that this service
// draws, and serves it with next. Other requests are passed to next as they are. A nil process means the one the
// environment describes.
func Handler(next http.Handler, p *scope.Process) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !Serve(next, w, r, p) {
			next.ServeHTTP(w, r)
		}
	})
}

// Serve serves one request within a scope; see Handler. False: it has none, and nothing was done. Under two hooks the
// inner one stays out of the way.
func Serve(next http.Handler, w http.ResponseWriter, r *http.Request, p *scope.Process) bool {
	if p == nil {
		p = scope.DefaultProcess()
	}
	own := r.Header[wire.HTTPHeader]
	drawn := false
	if len(own) == 0 && !wire.MayContainBridge(r.Header["Baggage"]) {
		if drawn = p.Sample(); !drawn {
			return false
		}
	}
	if p.Receiver.Settings() == nil || (len(own) == 0 && scope.Current(r.Context()) != nil) { // deaf: not even the header is touched
		return false
	}
	a := scope.IncomingRequest{HTTP: true, Sampled: drawn, Traceparent: r.Header.Get(wire.TraceparentKey)}
	if len(own) > 0 {
		a.Envelope = own[len(own)-1]
		delete(r.Header, wire.HTTPHeader) // accepted or refused, nobody passes it on as his own
	} else {
		a.Baggage = strings.Join(r.Header["Baggage"], ",")
	}
	s := new(scope.Scope)
	if !p.OpenScope(s, a) {
		return false
	}
	r2 := r.WithContext(scope.With(r.Context(), s))
	rw := &replyWriter{underlying: w, request: r, scope: s}
	if !s.ReturnsHistory() { // only the status is wanted
		rw.committed, rw.declaredLength = true, -1
	}
	// a panic ends the reply in net/http as it would without us: nothing that is still buffered is sent
	next.ServeHTTP(rw.withInterfaces(), r2)
	rw.finish(routeName(r2))
	return true
}

// routeName is the call as this service knows it: the template of ServeMux ("METHOD /cart/{user}"), or the normalised path.
// A template that ends with '/' only tells where a subtree hangs, so it names nothing but its own root.
func routeName(r *http.Request) string {
	template := r.Pattern
	if i := strings.IndexByte(template, '/'); i >= 0 {
		template = strings.TrimSuffix(template[i:], "{$}")
	}
	if template == "" || (strings.HasSuffix(template, "/") && template != r.URL.Path) {
		return wire.NormalizeHTTPName(wire.RawHTTPName(r.Method, r.URL.EscapedPath()))
	}
	return r.Method + " " + template
}
