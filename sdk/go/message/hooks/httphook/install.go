package httphook

import (
	"context"
	"net/http"
)

// InstallTransport hooks a transport without replacing it, since programs assert the type of http.DefaultTransport. It
// registers a protocol for http:// addresses that passes each request back to the same transport. For https://
// addresses the protocol is HTTP/2's, so they stay unhooked. It panics if the transport already has a protocol for
// http://.
func InstallTransport(t *http.Transport) {
	t.RegisterProtocol("http", protocol{t})
}

type protocol struct{ t *http.Transport }

// passKey marks the context of a request that the hook has passed back.
type passKey struct{}

func (p protocol) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Context().Value(passKey{}) != nil {
		return nil, http.ErrSkipAltProtocol
	}
	return RoundTrip(r, func(r2 *http.Request) (*http.Response, error) {
		if r2 == r { // not traced
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
