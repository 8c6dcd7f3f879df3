package suite

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	faultloom "faultloom.dev/go"
	"faultloom.dev/go/message/hooks/httphook"
	"faultloom.dev/go/message/scope"
	"faultloom.dev/go/message/wire"
)

// HTTPServer starts h as a service with the SDK, or without if p is nil, and returns its base URL.
func HTTPServer(t testing.TB, p *scope.Process, h http.Handler) string {
	if p != nil {
		h = httphook.Handler(h, p)
	}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// HTTPClient returns a client with the SDK that does not share connections.
func HTTPClient(t testing.TB) *http.Client {
	base := &http.Transport{}
	t.Cleanup(base.CloseIdleConnections)
	return &http.Client{Transport: httphook.Transport(base)}
}

// Get requests a URL and reads the whole body.
func Get(ctx context.Context, c *http.Client, url string, edit ...func(*http.Request)) (*http.Response, string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, "", err
	}
	for _, e := range edit {
		e(r)
	}
	resp, err := c.Do(r)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp, string(body), err
}

// Begin is start for other packages.
func Begin(t testing.TB, o faultloom.Options) (context.Context, *faultloom.Request) {
	return start(t, o)
}

// End is finish for other packages.
func End(t testing.TB, r *faultloom.Request) *wire.Segment { return finish(t, r) }

// Expect compares a history with the lines of FormatHistory.
func Expect(t testing.TB, s *wire.Segment, lines ...string) { t.Helper(); expect(t, s, lines...) }

// Fan returns a handler that makes n calls with its own context and replies with body, so its history has 4n+2 events.
func Fan(t testing.TB, n int, body string) http.Handler {
	back := HTTPServer(t, Process(t, "back"), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "x") }))
	c := HTTPClient(t)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for i := 0; i < n; i++ {
			if _, _, err := Get(r.Context(), c, back+"/item"); err != nil {
				http.Error(w, err.Error(), 502)
				return
			}
		}
		io.Copy(w, strings.NewReader(body))
	})
}
