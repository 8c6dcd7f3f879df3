package entry

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"faultloom.dev/go/internal/logbuffer"
	"faultloom.dev/go/message/wire"
)

func finished(call uint64) Finished {
	h := wire.AppendPrefix(wire.AppendHead(nil, wire.Version, call), 0, "front", "GET /", 1_700_000_000_000_000)
	return Finished{Trace: [16]byte{1}, History: append(h, wire.SendResponse, 5, 0)}
}

// receiver counts the spans that arrive and replies with a status.
type receiver struct {
	status atomic.Int32
	mu     sync.Mutex
	spans  map[string]int
	most   int // spans in one request
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var body wire.OTLPRequest
	if err := json.NewDecoder(req.Body).Decode(&body); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, s := range body.ResourceSpans[0].ScopeSpans[0].Spans {
		r.spans[s.ID]++
		n++
	}
	r.most = max(r.most, n)
	w.WriteHeader(int(r.status.Load()))
}

func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.spans)
}

func start(t *testing.T) (*receiver, *Exporter, *logbuffer.Buffer) {
	r := &receiver{spans: map[string]int{}}
	r.status.Store(200)
	s := httptest.NewServer(r)
	t.Cleanup(s.Close)
	x, err := NewExporter(s.URL + "/v1/traces")
	if err != nil {
		t.Fatal(err)
	}
	out := &logbuffer.Buffer{}
	x.log = out
	return r, x, out
}

func TestHistoriesArriveOnceInBatches(t *testing.T) {
	r, x, out := start(t)
	for i := uint64(1); i <= 200; i++ {
		x.Add(finished(i))
	}
	x.Flush(context.Background())
	if r.count() != 200 || r.most > maxBatch || out.String() != "" {
		t.Errorf("%d histories, at most %d at once: %s", r.count(), r.most, out)
	}
	// a single history waits for others, but not forever
	begin := time.Now()
	x.Add(finished(201))
	for r.count() < 201 {
		if time.Since(begin) > 10*time.Second {
			t.Fatal("never sent")
		}
		time.Sleep(time.Millisecond)
	}
	for id, n := range r.spans {
		if n != 1 {
			t.Errorf("%s arrived %d times", id, n)
		}
	}
}

// Replies do not wait for a slow or failing collector. Lost histories are counted and reported once.
func TestFailingCollectorOnlyLosesHistories(t *testing.T) {
	release, entered := make(chan struct{}), make(chan struct{}, 10)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		entered <- struct{}{}
		<-release
	}))
	defer s.Close()
	x, err := NewExporter(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	out := &logbuffer.Buffer{}
	x.log = out
	for i := uint64(1); i <= maxBatch; i++ {
		x.Add(finished(i))
	}
	<-entered
	begin := time.Now()
	for i := 0; i < 1000; i++ {
		x.Add(finished(9))
	}
	if took := time.Since(begin); took > time.Second {
		t.Errorf("waited for %v", took)
	}
	if len(x.queue) != maxQueue || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("%d are queued: %q", len(x.queue), out)
	}
	x.mu.Lock()
	lost := x.lost
	x.mu.Unlock()
	if lost != 1000-maxQueue-1 { // the first was reported
		t.Errorf("%d more are counted", lost)
	}
	close(release)
	x.Flush(context.Background())

	r, x, out := start(t)
	r.status.Store(503)
	x.Add(finished(1))
	x.Flush(context.Background())
	if !strings.Contains(out.String(), "1 histories were not exported") {
		t.Errorf("%q", out)
	}
	r.status.Store(204)
	x.Add(finished(2))
	x.Add(Finished{History: []byte{1, 2}}) // a callee has sent something that is no history
	x.Flush(context.Background())
	if r.count() != 2 || x.lost != 1 {
		t.Errorf("%d arrived, %d lost", r.count(), x.lost)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	x.Flush(ctx)
}

func TestInvalidEndpointIsRefused(t *testing.T) {
	for _, bad := range []string{"", "collector:4318", "ftp://x/", "http://", "http://[", "/v1/traces"} {
		if _, err := NewExporter(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}
