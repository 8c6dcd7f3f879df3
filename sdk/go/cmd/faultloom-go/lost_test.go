package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	faultloom "faultloom.dev/go"
	"faultloom.dev/go/internal/suite"
	"faultloom.dev/go/message/wire"
)

// lostApp makes calls whose context belongs to no request, in the way that the path names. BACK is the address that it
// calls.
const lostApp = `package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	health_v1 "google.golang.org/grpc/health/grpc_health_v1"
)

var channel *grpc.ClientConn

func get(ctx context.Context, item string) {
	r, _ := http.NewRequestWithContext(ctx, "GET", os.Getenv("BACK")+"/item/"+item, nil)
	if resp, err := http.DefaultClient.Do(r); err == nil {
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
}

func lost(item string) { get(context.TODO(), item) } // the line of the lost calls

type job struct {
	item string
	done chan bool
}

func pool() chan job {
	jobs := make(chan job)
	go func() {
		for j := range jobs {
			lost(j.item)
			close(j.done)
		}
	}()
	return jobs
}

func run(jobs chan job, item string) {
	j := job{item, make(chan bool)}
	jobs <- j
	<-j.done
}

// wait returns when f has called done.
func wait(f func(done func())) {
	c := make(chan bool)
	f(func() { close(c) })
	<-c
}

func main() {
	early := pool()
	var late chan job
	after, held := make(chan bool), make(chan bool)
	l, _ := net.Listen("tcp", "127.0.0.1:0")
	s := grpc.NewServer()
	health_v1.RegisterHealthServer(s, health.NewServer())
	g, _ := net.Listen("tcp", "127.0.0.1:0")
	go s.Serve(g)
	channel, _ = grpc.NewClient(g.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	check := func() { health_v1.NewHealthClient(channel).Check(context.Background(), &health_v1.HealthCheckRequest{}) }
	for path, handler := range map[string]func(r *http.Request){
		"/healthy": func(r *http.Request) { get(r.Context(), "healthy") },
		"/direct":  func(r *http.Request) { lost("direct") },
		"/grpc":    func(r *http.Request) { check() },
		"/started": func(r *http.Request) {
			wait(func(done func()) { go func() { go func() { lost("started"); done() }() }() })
		},
		"/timer": func(r *http.Request) {
			wait(func(done func()) { time.AfterFunc(time.Millisecond, func() { lost("timer"); done() }) })
		},
		"/early": func(r *http.Request) { run(early, "early") },
		// the pool is started by this request, and works for others while it is open
		"/first": func(r *http.Request) { late = pool(); held <- true; <-held },
		"/late":  func(r *http.Request) { run(late, "late") },
		"/after": func(r *http.Request) { go func() { <-after; lost("after"); after <- true }() },
		"/other": func(r *http.Request) { after <- true; <-after },
	} {
		http.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) { handler(r); fmt.Fprint(w, "ok") })
	}
	http.HandleFunc("/held", func(w http.ResponseWriter, r *http.Request) { <-held })
	http.HandleFunc("/release", func(w http.ResponseWriter, r *http.Request) { held <- true })
	fmt.Println(l.Addr())
	go func() { io.Copy(io.Discard, os.Stdin); os.Exit(0) }()
	http.Serve(l, nil)
}
`

// lostService is the built program and the server that it calls.
type lostService struct {
	address   string
	envelopes chan bool // of each request to the server, whether it had an envelope
}

func startLost(t *testing.T) *lostService {
	t.Helper()
	s := &lostService{envelopes: make(chan bool, 100)}
	back := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.envelopes <- r.Header.Get(wire.HTTPHeader) != ""
	}))
	t.Cleanup(back.Close)
	dir, binary := t.TempDir(), filepath.Join(t.TempDir(), "app")
	write(t, dir, grpcModule(t, "example.com/shop"))
	write(t, dir, map[string]string{"main.go": lostApp})
	if out, err := command(t, dir, "build", "-trimpath", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Setenv("BACK", back.URL)
	s.address = "http://" + runApp(t, binary)
	return s
}

// get requests a path and returns the calls in its history: "inherited GET /item/direct", "1 unscoped …".
func (s *lostService) get(t *testing.T, path string, plan ...faultloom.Fault) (calls []string) {
	t.Helper()
	ctx, r := suite.Begin(t, faultloom.Options{Plan: plan})
	if _, _, err := suite.Get(ctx, suite.HTTPClient(t), s.address+path); err != nil {
		t.Fatal(path, err)
	}
	segment := suite.End(t, r)
	for _, e := range segment.Events {
		if e.Child == nil {
			continue
		}
		for _, e := range e.Child.Events {
			switch {
			case e.Kind == wire.UnscopedCalls:
				calls = append(calls, fmt.Sprintf("%d unscoped %s %s", e.Count, e.Name, regexp.MustCompile(`:\d+$`).ReplaceAllString(e.Site, "")))
			case e.Kind == wire.SendRequest && e.Inherited:
				calls = append(calls, "inherited "+e.Name)
			case e.Kind == wire.SendRequest:
				calls = append(calls, "own "+e.Name)
			}
			if e.Kind == wire.SendRequest && e.Fault >= 0 {
				calls = append(calls, "fault")
			}
		}
	}
	return calls
}

func expect(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func TestCallsThatLostTheirRequest(t *testing.T) {
	s := startLost(t)
	sent := func(what string, want bool) {
		t.Helper()
		select {
		case got := <-s.envelopes:
			if got != want {
				t.Errorf("%s: envelope %v, want %v", what, got, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: no call", what)
		}
	}
	untraced := func(path string) {
		t.Helper()
		if _, _, err := suite.Get(context.Background(), suite.HTTPClient(t), s.address+path); err != nil {
			t.Error(path, err)
		}
	}
	for range 2 { // the connection's goroutine handles several requests
		expect(t, "healthy", s.get(t, "/healthy"), "own GET /item/healthy")
		sent("healthy", true)
		expect(t, "direct", s.get(t, "/direct"), "inherited GET /item/direct")
		sent("direct", true)
		untraced("/direct")
		sent("untraced", false)
	}
	fault := faultloom.Fault{Kind: wire.Unavailable, Selector: faultloom.Selector{Caller: "app"}}
	expect(t, "fault", s.get(t, "/direct", fault), "inherited GET /item/direct", "fault")
	expect(t, "gRPC", s.get(t, "/grpc"), "inherited /grpc.health.v1.Health/Check")
	expect(t, "started goroutine", s.get(t, "/started"), "inherited GET /item/started")
	sent("started goroutine", true)
	expect(t, "timer", s.get(t, "/timer"), "inherited GET /item/timer")
	sent("timer", true)
	expect(t, "earlier pool", s.get(t, "/early"), "1 unscoped GET /item/early main.go")
	sent("earlier pool", false)
	expect(t, "answered", s.get(t, "/after"))
	expect(t, "another request", s.get(t, "/other"), "1 unscoped GET /item/after main.go")
	sent("after the answer", false)

	// a pool that a request has started gives it the calls of others while it is open, and they count them
	first := make(chan []string)
	go func() { first <- s.get(t, "/first") }()
	untraced("/held") // the pool exists
	expect(t, "request that uses the pool", s.get(t, "/late"), "1 unscoped GET /item/late main.go")
	sent("pool of an open request", true)
	// the goroutine of a handler works for its own request only; others that it starts may not
	expect(t, "direct beside another request", s.get(t, "/direct"), "inherited GET /item/direct")
	sent("direct beside another request", true)
	expect(t, "gRPC beside another request", s.get(t, "/grpc"), "inherited /grpc.health.v1.Health/Check")
	expect(t, "started beside another request", s.get(t, "/started"), "inherited GET /item/started")
	sent("started beside another request", true)
	untraced("/release")
	expect(t, "request that started the pool", <-first, "inherited GET /item/late", "1 unscoped GET /item/started main.go")
	expect(t, "pool of an answered request", s.get(t, "/late"), "1 unscoped GET /item/late main.go")
	sent("pool of an answered request", false)
}
