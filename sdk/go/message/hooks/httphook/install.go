package httphook

import (
	"context"
	"net/http"
)

// InstallTransport hooks a transport without replacing it: programs assert http.DefaultTransport's type, so it must stay
// what it is. The transport is given a protocol of its own for http:// addresses, which comes back to it for the real
// work. For https:// that place is taken by HTTP/2, so those requests stay unhooked. It panics if the transport has a
// protocol for http:// already.
func InstallTransport(t *http.Transport) {
	t.RegisterProtocol("http", protocol{t})
}

type protocol struct{ t *http.Transport }

type passKey struct{}

func (p protocol) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Context().Value(passKey{}) != nil {
		return nil, http.ErrSkipAltProtocol
	}
	return RoundTrip(r, func(r2 *http.Request) (*http.Response, error) {
		if r2 == r { // nothing to do for us
			return nil, http.ErrSkipAltProtocol
		}
		r3 := r2.WithContext(context.WithValue(r2.Context(), passKey{}, true))
		resp, err := p.t.RoundTrip(r3)
		if resp != nil && resp.Request == r3 {
			resp.Request = r2
		}
		return resp, err
	})
}
