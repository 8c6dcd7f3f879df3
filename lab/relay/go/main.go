// Command relay forwards journeys over HTTP and gRPC. See ../README.md.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"relay.example/gen"
)

// callTimeout bounds a call to the next stop.
const callTimeout = 5 * time.Second

type relay struct {
	gen.UnimplementedRelayServer
	name     string
	mu       sync.Mutex
	channels map[string]*grpc.ClientConn
}

// visit visits this relay, then the stops.
func (r *relay) visit(ctx context.Context, stops []string) *gen.Visits {
	visits := &gen.Visits{Names: []string{r.name}}
	if len(stops) == 0 {
		return visits
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	kind, address, _ := strings.Cut(stops[0], " ")
	var rest *gen.Visits
	if kind == "http" {
		rest, visits.Failure = r.http(ctx, address, stops[1:])
	} else {
		var err error
		rest, err = r.grpc(ctx, kind, address, &gen.Journey{Stops: stops[1:]})
		if err != nil {
			visits.Failure = "grpc " + strconv.Itoa(int(status.Code(err)))
		}
	}
	visits.Names = append(visits.Names, rest.GetNames()...)
	if visits.Failure == "" {
		visits.Failure = rest.GetFailure()
	}
	return visits
}

type page struct {
	Names   []string `json:"names"`
	Failure string   `json:"failure"`
}

func (r *relay) http(ctx context.Context, address string, stops []string) (*gen.Visits, string) {
	request, err := http.NewRequestWithContext(ctx, "GET", "http://"+address+"/relay?"+url.Values{"stop": stops}.Encode(), nil)
	if err != nil {
		return nil, "unusable address"
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, failureText(err)
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(reply.Body)
	if err != nil {
		return nil, failureText(err)
	}
	if reply.StatusCode != 200 {
		return nil, "status " + strconv.Itoa(reply.StatusCode)
	}
	var p page
	if json.Unmarshal(body, &p) != nil {
		return nil, "garbled"
	}
	return &gen.Visits{Names: p.Names, Failure: p.Failure}, ""
}

func failureText(err error) string {
	var timeout interface{ Timeout() bool }
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "reset"
	}
	return err.Error()
}

func (r *relay) channel(address string) (*grpc.ClientConn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.channels[address]; c != nil {
		return c, nil
	}
	c, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err == nil {
		r.channels[address] = c
	}
	return c, err
}

func (r *relay) grpc(ctx context.Context, kind, address string, journey *gen.Journey) (*gen.Visits, error) {
	channel, err := r.channel(address)
	if err != nil {
		return nil, err
	}
	client := gen.NewRelayClient(channel)
	switch kind {
	case "watch":
		stream, err := client.Watch(ctx, journey)
		if err != nil {
			return nil, err
		}
		return receiveAll(stream.Recv)
	case "collect":
		stream, err := client.Collect(ctx)
		if err != nil {
			return nil, err
		}
		for range 2 {
			if stream.Send(journey) != nil {
				break // CloseAndRecv returns the error
			}
		}
		return stream.CloseAndRecv()
	case "talk":
		stream, err := client.Talk(ctx)
		if err != nil {
			return nil, err
		}
		all := &gen.Visits{}
		for range 2 {
			stream.Send(journey) // Recv returns the error
			one, err := stream.Recv()
			if err != nil {
				return all, err
			}
			add(all, one)
		}
		stream.CloseSend()
		if _, err := stream.Recv(); err != io.EOF {
			return all, err
		}
		return all, nil
	}
	return client.Call(ctx, journey)
}

func receiveAll(receive func() (*gen.Visits, error)) (*gen.Visits, error) {
	all := &gen.Visits{}
	for {
		one, err := receive()
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		add(all, one)
	}
}

func add(all, one *gen.Visits) {
	all.Names = append(all.Names, one.Names...)
	if all.Failure == "" {
		all.Failure = one.Failure
	}
}

func (r *relay) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	visits := r.visit(request.Context(), request.URL.Query()["stop"])
	w.Header().Set("content-type", "application/json")
	json.NewEncoder(w).Encode(page{visits.Names, visits.Failure})
}

func (r *relay) Call(ctx context.Context, journey *gen.Journey) (*gen.Visits, error) {
	return r.visit(ctx, journey.Stops), nil
}

func (r *relay) Watch(journey *gen.Journey, stream gen.Relay_WatchServer) error {
	for range 2 {
		if err := stream.Send(r.visit(stream.Context(), journey.Stops)); err != nil {
			return err
		}
	}
	return nil
}

func (r *relay) Collect(stream gen.Relay_CollectServer) error {
	all := &gen.Visits{}
	for {
		journey, err := stream.Recv()
		if err == io.EOF {
			return stream.SendAndClose(all)
		}
		if err != nil {
			return err
		}
		add(all, r.visit(stream.Context(), journey.Stops))
	}
}

func (r *relay) Talk(stream gen.Relay_TalkServer) error {
	for {
		journey, err := stream.Recv()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := stream.Send(r.visit(stream.Context(), journey.Stops)); err != nil {
			return err
		}
	}
}

func main() {
	r := &relay{name: os.Getenv("NAME"), channels: map[string]*grpc.ClientConn{}}
	log.SetFlags(0)
	log.SetPrefix(r.name + ": ")
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()

	pages := http.NewServeMux()
	pages.Handle("GET /relay", r)
	pages.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	web := &http.Server{Addr: "127.0.0.1:" + os.Getenv("PORT"), Handler: pages, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		if err := web.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
			log.Fatal(err)
		}
	}()

	listener, err := net.Listen("tcp", "127.0.0.1:"+os.Getenv("GRPC_PORT"))
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer()
	gen.RegisterRelayServer(server, r)
	healthpb.RegisterHealthServer(server, health.NewServer())
	go func() {
		<-ctx.Done()
		web.Close()
		server.Stop()
	}()
	if err := server.Serve(listener); err != nil {
		log.Fatal(err)
	}
}
