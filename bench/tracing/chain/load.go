package main

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"bench.example/tracing/gen"
)

const clients = 32

// shape describes the requests: how many services each passes, how many calls that makes, and that one in sample
// requests is traced.
type shape struct {
	hops   int32
	calls  int
	sample int
}

// window is the result of one `run WARM_MS MEASURE_MS`. The clients send a request as soon as they have the previous
// reply. Throughput and latency count the requests that end inside the measured time. Total also counts those before
// and after, as CPU time does.
type window struct {
	Requests   int     `json:"requests"`
	Seconds    float64 `json:"seconds"`
	Total      int     `json:"total"`
	LatencyP50 float64 `json:"latency_us_p50"`
	LatencyP99 float64 `json:"latency_us_p99"`
	Checked    int     `json:"histories_checked"` // only set if requests are traced with Faultloom, like the next two
	Bytes      int     `json:"history_bytes"`
	Events     int     `json:"history_events"`
}

// client is one closed loop.
type client struct {
	_         [64]byte // keeps the counters of two clients in different cache lines
	latencies []int32  // µs
	total     int
	histories int
	samples   [][]byte // histories kept for the check after the window
	_         [64]byte
}

func load(arguments []string) {
	if len(arguments) != 4 {
		fail("usage: chain load ADDRESS HOPS CALLS SAMPLE")
	}
	requests := shape{int32(natural(arguments[1])), natural(arguments[2]), max(1, natural(arguments[3]))}
	t := newTracing()
	chain := dial(arguments[0], t.dial)
	pool := make([]client, clients)
	run := func(words []string) any {
		if len(words) != 2 {
			fail("usage: run WARM_MS MEASURE_MS")
		}
		return measure(chain, t, requests, pool, milliseconds(words[0]), milliseconds(words[1]))
	}
	commands := map[string]func([]string) any{"run": run}
	for name, command := range t.commands {
		commands[name] = command
	}
	control(struct{}{}, commands)
}

func milliseconds(word string) time.Duration {
	return time.Duration(natural(word)) * time.Millisecond
}

func natural(word string) int {
	n, err := strconv.Atoi(word)
	if err != nil || n < 0 {
		fail("%q is not a natural number", word)
	}
	return n
}

var items = []string{"lamp-7", "chair-31", "kettle-2", "blanket-19"}

func measure(chain gen.ChainClient, t tracing, requests shape, pool []client, warm, measured time.Duration) window {
	var measuring, stopped atomic.Bool
	var wg sync.WaitGroup
	for i := range pool {
		c := &pool[i]
		c.latencies, c.total, c.histories, c.samples = c.latencies[:0], 0, 0, c.samples[:0]
		wg.Go(func() {
			id := "parcel-" + strconv.Itoa(i)
			for !stopped.Load() {
				begin := time.Now()
				request := plainRequest
				if c.total%requests.sample == 0 {
					request = t.request
				}
				history, err := request(func(ctx context.Context) error {
					r, err := chain.Forward(ctx, &gen.Parcel{Id: id, Items: items})
					if err == nil && (r.Hops != requests.hops || r.Id != id) {
						fail("wrong reply: %v", r)
					}
					return err
				})
				if err != nil {
					fail("%v", err)
				}
				c.total++
				if measuring.Load() {
					c.latencies = append(c.latencies, int32(time.Since(begin)/time.Microsecond))
				}
				if history != nil {
					if c.histories%64 == 0 {
						c.samples = append(c.samples, history)
					}
					c.histories++
				}
			}
		})
	}
	time.Sleep(warm)
	begin := time.Now()
	measuring.Store(true)
	time.Sleep(measured)
	measuring.Store(false)
	w := window{Seconds: time.Since(begin).Seconds()}
	stopped.Store(true)
	wg.Wait()

	var all []int32
	for i := range pool {
		c := &pool[i]
		all = append(all, c.latencies...)
		w.Total += c.total
		for _, history := range c.samples {
			events, err := t.check(history, requests.calls)
			if err != nil {
				fail("%v", err)
			}
			w.Checked++
			w.Bytes += len(history)
			w.Events += events
		}
	}
	if w.Requests = len(all); w.Requests > 0 {
		slices.Sort(all)
		w.LatencyP50 = float64(all[len(all)/2])
		w.LatencyP99 = float64(all[len(all)*99/100])
	}
	return w
}
