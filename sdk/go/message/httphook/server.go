package httphook

import (
	"net/http"
	"strings"

	"faultloom.dev/go/message/scope"
	"faultloom.dev/go/message/wire"
)

// Handler returns a handler that opens a scope for every request with an acceptable envelope and serves it with next.
// Other requests are passed to next as they are. A nil process means the one the environment describes.
func Handler(next http.Handler, p *scope.Process) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { Serve(next, w, r, p) })
}

// Serve serves one request; see Handler. Under two hooks the inner one finds no envelope any more and stays out of the way.
func Serve(next http.Handler, w http.ResponseWriter, r *http.Request, p *scope.Process) {
	values := r.Header[wire.HTTPHeader]
	if len(values) == 0 {
		next.ServeHTTP(w, r)
		return
	}
	if p == nil {
		p = scope.Default()
	}
	if p.Receiver.Settings() == nil { // deaf: not even the header is touched
		next.ServeHTTP(w, r)
		return
	}
	delete(r.Header, wire.HTTPHeader) // accepted or refused, nobody passes it on as his own
	s := p.OpenHeader(values[len(values)-1])
	if s == nil {
		next.ServeHTTP(w, r)
		return
	}
	r2 := r.WithContext(scope.With(r.Context(), s))
	if !s.Envelope().History {
		next.ServeHTTP(w, r2)
		return
	}
	rw := &writer{under: w, request: r, scope: s}
	// a panic ends the reply in net/http as it would without us: nothing that is still buffered is sent
	next.ServeHTTP(rw.facade(), r2)
	rw.finish(routeName(r2))
}

// routeName is the call as this service knows it: the template of ServeMux ("METHOD /cart/{user}"), or the normalised path.
// A template that ends with '/' only tells where a subtree hangs, so it names nothing but its own root.
func routeName(r *http.Request) string {
	template := r.Pattern
	if i := strings.IndexByte(template, '/'); i >= 0 {
		template = strings.TrimSuffix(template[i:], "{$}")
	}
	if template == "" || (strings.HasSuffix(template, "/") && template != r.URL.Path) {
		return wire.NormalName(wire.RawHTTPName(r.Method, r.URL.EscapedPath()))
	}
	return r.Method + " " + template
}
