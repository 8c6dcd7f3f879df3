package entry

import (
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
)

func TestProxies(t *testing.T) {
	var arrived, tunnels atomic.Int32
	handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if arrived.Add(1); r.Header.Get("Proxy-Authorization") != "" {
			t.Error("the proxy forwarded its password")
		}
	})
	sink, locked := httptest.NewServer(handler), httptest.NewTLSServer(handler)
	defer sink.Close()
	defer locked.Close()
	roots := x509.NewCertPool()
	roots.AddCert(locked.Certificate())
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Proxy-Authorization") != "Basic dXM6aHVzaA==" {
			http.Error(w, "", http.StatusProxyAuthRequired)
			return
		}
		r.Header.Del("Proxy-Authorization")
		if r.Method != http.MethodConnect {
			r.RequestURI = ""
			resp, err := http.DefaultTransport.RoundTrip(r)
			if err != nil || r.URL.String() != sink.URL+"/v1/traces" {
				t.Error(r.URL, err)
				return
			}
			resp.Body.Close()
			w.WriteHeader(resp.StatusCode)
			return
		}
		tunnels.Add(1)
		upstream, err := net.Dial("tcp", r.Host)
		if err != nil {
			t.Error(err)
			return
		}
		defer upstream.Close()
		client, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer client.Close()
		io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n")
		go io.Copy(upstream, client)
		io.Copy(client, upstream)
	}))
	defer proxy.Close()
	for _, c := range []struct {
		collector, proxy  string
		requests, tunnels int32
	}{
		{sink.URL, strings.Replace(proxy.URL, "//", "//us:hush@", 1), 2, 0},
		{locked.URL, strings.Replace(proxy.URL, "//", "//us:hush@", 1), 2, 1},
		{sink.URL, proxy.URL, 0, 0},
		{locked.URL, proxy.URL, 0, 0},
		{sink.URL, strings.Replace(proxy.URL, "http", "socks5", 1), 0, 0},
	} {
		arrived.Store(0)
		tunnels.Store(0)
		s := sinkTo(t, c.collector+"/v1/traces")
		s.proxy = func(*http.Request) (*url.URL, error) { return url.Parse(c.proxy) }
		s.tls = newTLSWrapper(roots)
		for range 2 {
			if err := s.post([]byte("{}")); (err == nil) != (c.requests > 0) {
				t.Errorf("%s by %s: %v", c.collector, c.proxy, err)
			}
		}
		if arrived.Load() != c.requests || tunnels.Load() != c.tunnels {
			t.Errorf("%s by %s: %d arrived, %d tunnels", c.collector, c.proxy, arrived.Load(), tunnels.Load())
		}
	}
}

// net/http reads the environment once per process, so the test starts another process.
func TestProxyFromTheEnvironmentIsUsed(t *testing.T) {
	const name, collector = "FAULTLOOM_TEST_EXPORT", "http://collector.invalid/v1/traces"
	if os.Getenv(name) != "" {
		if err := sinkTo(t, collector).post([]byte("{}")); err != nil {
			t.Error(err)
		}
		return
	}
	var requested atomic.Value
	proxy := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { requested.Store(r.URL.String()) }))
	defer proxy.Close()
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), name+"=1", "HTTP_PROXY="+proxy.URL, "http_proxy="+proxy.URL, "NO_PROXY=", "no_proxy=")
	if out, err := cmd.CombinedOutput(); err != nil || fmt.Sprint(requested.Load()) != collector {
		t.Errorf("%v, %v: %s", requested.Load(), err, out)
	}
}
