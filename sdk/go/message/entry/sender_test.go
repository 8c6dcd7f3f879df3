package entry

import (
	"bufio"
	"context"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"faultloom.dev/go/internal/logbuffer"
)

// sinkTo returns a sender to an address, with a timeout that no working exchange reaches.
func sinkTo(t *testing.T, address string) *sender {
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	s := newSender(u)
	s.tls = newTLSWrapper(nil)
	s.timeout = time.Minute
	t.Cleanup(func() {
		if s.idle != nil {
			s.idle.Close()
		}
	})
	return s
}

// lineSink accepts connections and calls serve for each, with its number from 0. It counts them.
func lineSink(t *testing.T, serve func(n int, c net.Conn, in *bufio.Reader)) (address string, connections *atomic.Int32) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	connections = new(atomic.Int32)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			n := int(connections.Add(1)) - 1
			go func() {
				defer c.Close()
				serve(n, c, bufio.NewReader(c))
			}()
		}
	}()
	return "http://" + l.Addr().String() + "/v1/traces", connections
}

// request reads one whole request.
func request(in *bufio.Reader) (body string, err error) {
	r, err := http.ReadRequest(in)
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(r.Body)
	return string(b), err
}

const okReply = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"

func TestRepliesAreParsedAndTheConnectionIsReused(t *testing.T) {
	elsewhere, _ := lineSink(t, func(int, net.Conn, *bufio.Reader) { t.Error("a redirect was followed") })
	for _, c := range []struct {
		name, reply string
		accepted    bool // the post succeeds
		reused      bool // the connection serves the next post
	}{
		{"plain", okReply, true, true},
		{"no content", "HTTP/1.1 204 No Content\r\n\r\n", true, true},
		{"chunked, with a trailer", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\nX-T: 1\r\n\r\n", true, true},
		{"hints first", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + okReply, true, true},
		{"last one", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}", true, false},
		{"HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}", true, false},
		{"more than a reply", okReply + okReply, true, false},
		{"bad request", "HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\n{}", false, true},
		{"too many", "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n", false, true},
		{"unavailable", "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n", false, true},
		{"redirect", "HTTP/1.1 307 Temporary Redirect\r\nLocation: " + elsewhere + "\r\nContent-Length: 0\r\n\r\n", false, true},
		{"another protocol", "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", false, false},
		{"not HTTP", "SSH-2.0-x\r\n\r\n", false, false},
		{"cut off", "HTTP/1.1 200 OK\r\nContent-Le", false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			address, connections := lineSink(t, func(n int, conn net.Conn, in *bufio.Reader) {
				for {
					body, err := request(in)
					if err != nil {
						return
					}
					if body == "odd" {
						io.WriteString(conn, c.reply)
						if c.name == "cut off" {
							return
						}
						continue
					}
					io.WriteString(conn, okReply)
				}
			})
			s := sinkTo(t, address)
			for i, body := range []string{"first", "odd", "last"} { // healthy, disturbed, healthy
				if err := s.post([]byte(body)); (err == nil) != (c.accepted || body != "odd") {
					t.Fatalf("%d: %v", i, err)
				}
			}
			if want := map[bool]int32{true: 1, false: 2}[c.reused]; connections.Load() != want {
				t.Errorf("%d connections instead of %d", connections.Load(), want)
			}
		})
	}
}

// The collector closes its connection after each reply without announcing it, as one does after a long idle time.
func TestClosedConnectionIsReopenedOnce(t *testing.T) {
	var arrived atomic.Int32
	ended := make(chan struct{}, 10)
	address, connections := lineSink(t, func(n int, c net.Conn, in *bufio.Reader) {
		if n == 3 { // from here on it does not reply
			return
		}
		if _, err := request(in); err == nil {
			arrived.Add(1)
			io.WriteString(c, okReply)
		}
		c.Close()
		ended <- struct{}{}
	})
	s := sinkTo(t, address)
	for i := int32(1); i <= 3; i++ {
		if err := s.post([]byte("body")); err != nil || arrived.Load() != i || connections.Load() != i {
			t.Fatalf("%d: %v, %d arrived over %d connections", i, err, arrived.Load(), connections.Load())
		}
		<-ended
	}
	if err := s.post([]byte("body")); !errors.Is(err, errNoReply) || connections.Load() != 4 {
		t.Errorf("%v, over %d connections", err, connections.Load())
	}
	if err := s.post([]byte("body")); err != nil || arrived.Load() != 4 {
		t.Errorf("not healthy again: %v, %d arrived", err, arrived.Load())
	}
}

func TestSlowOrEndlessCollectorTimesOut(t *testing.T) {
	var kind atomic.Value // what the collector does
	done := make(chan struct{})
	defer close(done)
	address, _ := lineSink(t, func(_ int, c net.Conn, in *bufio.Reader) {
		for {
			if kind.Load() == "does not read" {
				<-done
				return
			}
			if _, err := request(in); err != nil {
				return
			}
			begin, then := okReply, ""
			switch kind.Load() {
			case "no reply":
				begin = ""
			case "slow head":
				begin, then = "HTTP/1.1 200 OK\r\nX: ", "x"
			case "endless head":
				begin, then = "HTTP/1.1 200 OK\r\n", strings.Repeat("X: "+strings.Repeat("y", 1000)+"\r\n", 100)
			case "endless line":
				begin, then = "HTTP/1.1 200 ", strings.Repeat("x", 100_000)
			case "endless hints":
				begin, then = "", strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 4000)
			case "slow body":
				begin = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}"
			case "endless body":
				begin, then = "HTTP/1.1 200 OK\r\n\r\n", strings.Repeat("x", 100_000)
			case "endless chunks":
				begin, then = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", strings.Repeat("1\r\nx\r\n", 20_000)
			}
			_, err := io.WriteString(c, begin)
			for err == nil && then != "" {
				if _, err = io.WriteString(c, then); then == "x" {
					time.Sleep(time.Millisecond)
				}
			}
		}
	})
	for _, c := range []struct {
		kind     string
		limit    time.Duration
		accepted bool
	}{
		{"does not read", 200 * time.Millisecond, false},
		{"no reply", 200 * time.Millisecond, false},
		{"slow head", 200 * time.Millisecond, false},
		{"endless head", time.Minute, false},
		{"endless line", time.Minute, false},
		{"endless hints", time.Minute, false},
		{"slow body", 200 * time.Millisecond, true}, // the status is enough
		{"endless body", time.Minute, true},
		{"endless chunks", time.Minute, true},
	} {
		t.Run(c.kind, func(t *testing.T) {
			s := sinkTo(t, address)
			kind.Store("")
			if err := s.post([]byte("first")); err != nil {
				t.Fatal(err)
			}
			kind.Store(c.kind)
			body := "odd"
			if c.kind == "does not read" { // which needs a connection that has not been read from
				s.idle.Close()
				body = strings.Repeat("x", 16<<20)
			}
			s.timeout = c.limit
			begin := time.Now()
			err := s.post([]byte(body))
			if took := time.Since(begin); (err == nil) != c.accepted || took > 20*time.Second || s.idle != nil {
				t.Errorf("%v after %v, kept: %v", err, took, s.idle)
			}
			kind.Store("")
			s.timeout = time.Minute
			if err := s.post([]byte("last")); err != nil {
				t.Errorf("not healthy again: %v", err)
			}
		})
	}
}

func TestTLSCertificateIsVerified(t *testing.T) {
	var arrived atomic.Int32
	sink := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { arrived.Add(1) }))
	sink.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes fail on purpose
	sink.StartTLS()
	defer sink.Close()
	roots := x509.NewCertPool()
	roots.AddCert(sink.Certificate())
	s := sinkTo(t, sink.URL)
	if err := s.post(nil); err == nil || arrived.Load() != 0 {
		t.Errorf("accepted an unknown certificate: %v", err)
	}
	s.tls = newTLSWrapper(roots)
	for i := int32(1); i <= 2; i++ {
		if err := s.post([]byte("{}")); err != nil || arrived.Load() != i {
			t.Errorf("%v, %d arrived", err, arrived.Load())
		}
	}
	s = sinkTo(t, strings.Replace(sink.URL, "127.0.0.1", "localhost", 1)) // a name that the certificate does not have
	s.tls = newTLSWrapper(roots)
	if err := s.post(nil); err == nil || arrived.Load() != 2 {
		t.Errorf("sent to another name: %v", err)
	}
	s = sinkTo(t, strings.Replace(sink.URL, "https", "http", 1))
	if err := s.post(nil); err == nil {
		t.Error("HTTP to a port with TLS")
	}
}

func TestEndpointPasswordIsSentButNotLogged(t *testing.T) {
	var status atomic.Int32
	status.Store(204)
	sink := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if user != "us" || password != "hush" || r.URL.String() != "/v1/traces?token=hush2" || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s with %v", r.URL, r.Header)
		}
		w.WriteHeader(int(status.Load()))
	}))
	address := strings.Replace(sink.URL, "http://", "http://us:hush@", 1) + "/v1/traces?token=hush2#part"
	x, err := NewExporter(address)
	if err != nil {
		t.Fatal(err)
	}
	out := &logbuffer.Buffer{}
	x.log = out
	for _, answer := range []int{204, 401, 0} { // 0: no listener
		if status.Store(int32(answer)); answer == 0 {
			sink.Close()
		}
		x.mu.Lock()
		x.lastReport = time.Time{}
		x.mu.Unlock()
		x.Add(finished(1))
		x.Flush(context.Background())
	}
	if got := out.String(); strings.Count(got, "1 histories were not exported") != 2 || strings.Contains(got, "hush") {
		t.Errorf("%q", got)
	}
	if _, err := NewExporter("http://us:hush@[/"); err == nil || strings.Contains(err.Error(), "hush") {
		t.Error(err)
	}
}
