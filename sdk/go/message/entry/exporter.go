// Package entry is about requests that a service starts to trace itself: which ones it samples, and how it exports
// their histories to an OpenTelemetry collector, as OTLP/HTTP in JSON. Replies never wait for the export: histories go
// into a queue, and if the queue is full they are dropped and counted.
package entry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"sync"
	"time"

	"faultloom.dev/go/message/wire"
)

const (
	maxQueue       = 256
	maxBatch       = 64
	batchAfter     = 250 * time.Millisecond // the format allows 1 s, but Go has no hook for the end of a program
	reportInterval = time.Minute
)

// Finished is the history of one request.
type Finished struct {
	Trace     [16]byte
	HasParent bool // the request came with a traceparent
	History   []byte
}

// Exporter sends histories from a queue. Its goroutine starts with the first history. Safe for concurrent use.
type Exporter struct {
	sender        *sender
	start         sync.Once
	queue         chan Finished
	flushRequests chan chan struct{}

	mu         sync.Mutex
	lost       int
	lastReport time.Time
	log        io.Writer
}

// NewExporter returns an exporter for an OTLP/HTTP endpoint such as http://collector:4318/v1/traces. The error
// describes what is wrong with the endpoint, as the end of a sentence "X is …".
func NewExporter(endpoint string) (*Exporter, error) {
	u, err := url.Parse(endpoint)
	if err != nil || !isHTTP(u) || u.Hostname() == "" {
		return nil, errors.New("not an http:// or https:// address")
	}
	if isTLS(u) && linkedTLS == nil {
		return nil, errors.New("an https:// address, but this program does not use TLS itself and was built without TLS; " +
			"build it with FAULTLOOM_EXPORT set to that address, or export to a collector at http://")
	}
	return &Exporter{
		sender:        newSender(u),
		queue:         make(chan Finished, maxQueue),
		flushRequests: make(chan chan struct{}),
		log:           os.Stderr,
	}, nil
}

// Add queues a history. It retains the history's bytes and never blocks.
func (x *Exporter) Add(f Finished) {
	x.start.Do(func() { go x.run() })
	select {
	case x.queue <- f:
	default:
		x.recordLoss(1)
	}
}

// Flush sends what is queued, and returns when that is done or the context ends.
func (x *Exporter) Flush(ctx context.Context) {
	x.start.Do(func() { go x.run() })
	done := make(chan struct{})
	select {
	case x.flushRequests <- done:
		select {
		case <-done:
		case <-ctx.Done():
		}
	case <-ctx.Done():
	}
}

func (x *Exporter) run() {
	for {
		var batch []Finished
		var flushed chan struct{}
		select {
		case f := <-x.queue:
			batch = append(batch, f)
		case flushed = <-x.flushRequests:
		}
		due := time.NewTimer(batchAfter)
		for more := flushed == nil; more && len(batch) < maxBatch; {
			select {
			case f := <-x.queue:
				batch = append(batch, f)
			case flushed = <-x.flushRequests:
				more = false
			case <-due.C:
				more = false
			}
		}
		due.Stop()
		x.send(batch)
		if flushed != nil {
			for n := len(x.queue); n > 0; n = len(x.queue) {
				batch = batch[:0]
				for len(batch) < min(n, maxBatch) {
					batch = append(batch, <-x.queue)
				}
				x.send(batch)
			}
			close(flushed)
		}
	}
}

// send exports one batch, or counts it as lost.
func (x *Exporter) send(batch []Finished) {
	if len(batch) == 0 {
		return
	}
	defer func() {
		if recover() != nil { // a bug in the export must not crash the program
			x.recordLoss(len(batch))
		}
	}()
	var request wire.OTLPRequest
	good := 0
	for _, f := range batch {
		if h, err := wire.DecodeHistory(f.History); err == nil { // the histories of callees were never checked
			request.Add(f.Trace, f.HasParent, h)
			good++
		}
	}
	lost := len(batch) - good
	if good > 0 && x.post(&request) != nil {
		lost = len(batch)
	}
	if lost > 0 {
		x.recordLoss(lost)
	}
}

func (x *Exporter) post(request *wire.OTLPRequest) error {
	body, err := encode(request)
	if err != nil {
		return err
	}
	return x.sender.post(body)
}

func encode(request *wire.OTLPRequest) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	err := e.Encode(request)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}

// recordLoss counts histories that were dropped, and logs the count at most once a minute.
func (x *Exporter) recordLoss(n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.lost += n
	if now := time.Now(); x.lastReport.IsZero() || now.Sub(x.lastReport) >= reportInterval {
		fmt.Fprintf(x.log, "faultloom: %d histories were not exported: the collector failed or was too slow\n", x.lost)
		x.lost, x.lastReport = 0, now
	}
}
