// Command contexts makes the calls of a plan, with their context or without it. See ../README.md.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"sync"
	"time"
)

type work struct {
	// Request is the identifier of the request that the calls belong to.
	Request string `json:"request"`
	Steps   []step `json:"steps"`
}

type step struct {
	Call    string `json:"call"`
	Mode    string `json:"mode"`
	Peer    string `json:"peer"`
	PauseMS int    `json:"pause_ms"`
	Wait    bool   `json:"wait"`
	Steps   []step `json:"steps"`
}

const (
	workers       = 32
	queueInterval = 3 * time.Millisecond
	// A cached worker ends after this many jobs, or when it was idle for this long.
	cachedJobs = 6
	cachedIdle = 50 * time.Millisecond
	afterDelay = 15 * time.Millisecond
)

var (
	pool   = make(chan func(), 1000)
	cached = make(chan func())
	mu     sync.Mutex
	queue  []func()
)

func startWorkers() {
	for range workers {
		go func() {
			for job := range pool {
				job()
			}
		}()
	}
	go func() {
		for range time.Tick(queueInterval) {
			mu.Lock()
			jobs := queue
			queue = nil
			mu.Unlock()
			for _, job := range jobs {
				go job()
			}
		}
	}()
}

func cachedWorker(job func()) {
	job()
	for range cachedJobs - 1 {
		select {
		case next := <-cached:
			next()
		case <-time.After(cachedIdle):
			return
		}
	}
}

// start makes the call and closes the returned channel when it has ended.
func start(ctx context.Context, request string, s step) <-chan struct{} {
	done := make(chan struct{})
	lost := func() {
		defer close(done)
		send(context.TODO(), request, s)
	}
	switch s.Mode {
	case "context":
		send(ctx, request, s)
		close(done)
	case "todo":
		lost()
	case "thread":
		go lost()
	case "pool":
		pool <- lost
	case "cached":
		select {
		case cached <- lost:
		default:
			go cachedWorker(lost)
		}
	case "queue":
		mu.Lock()
		queue = append(queue, lost)
		mu.Unlock()
	case "timer":
		time.AfterFunc(time.Millisecond, lost)
	case "after":
		go func() {
			time.Sleep(afterDelay)
			lost()
		}()
	default:
		log.Fatalf("unknown mode %q", s.Mode)
	}
	return done
}

func send(ctx context.Context, request string, s step) {
	body, err := json.Marshal(work{Request: request, Steps: s.Steps})
	if err != nil {
		log.Fatal(err)
	}
	call, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.Peer+"/run/"+s.Call, bytes.NewReader(body))
	if err != nil {
		log.Fatal(err)
	}
	call.Header.Set("Content-Type", "application/json")
	reply, err := http.DefaultClient.Do(call)
	if err != nil {
		fmt.Printf("failed %s %v\n", s.Call, err)
		return
	}
	io.Copy(io.Discard, reply.Body)
	reply.Body.Close()
	if reply.StatusCode != http.StatusOK {
		fmt.Printf("failed %s %s\n", s.Call, reply.Status)
	}
}

func run(w http.ResponseWriter, r *http.Request) {
	var todo work
	if err := json.NewDecoder(r.Body).Decode(&todo); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	fmt.Printf("call %s %s\n", r.PathValue("call"), todo.Request)
	var pending []<-chan struct{}
	for _, s := range todo.Steps {
		time.Sleep(time.Duration(s.PauseMS) * time.Millisecond)
		done := start(r.Context(), todo.Request, s)
		switch {
		case s.Mode == "after":
		case s.Wait:
			<-done
		default:
			pending = append(pending, done)
		}
	}
	for _, done := range pending {
		<-done
	}
	fmt.Fprint(w, "{}")
}

func main() {
	startWorkers()
	http.HandleFunc("POST /run/{call}", run)
	http.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), nil))
}
