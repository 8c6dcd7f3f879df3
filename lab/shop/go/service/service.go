// Package service has what all Go services of the shop share: reading settings
// from the environment, serving gRPC or HTTP until a signal arrives, and
// connecting to other services.
//
// Settings are environment variables: PORT (required), BIND (127.0.0.1), and
// one NAME_ADDR per dependency (required), each host:port.
package service

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// stopTimeout bounds how long requests in progress may delay a shutdown.
const stopTimeout = 1500 * time.Millisecond

// Main sets the prefix of log lines and calls run. If run fails, the process
// exits with status 1 and one line on stderr. The context ends at SIGTERM or
// SIGINT.
func Main(name string, run func(context.Context) error) {
	log.SetFlags(0)
	log.SetPrefix(name + ": ")
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

// Address returns the host:port in the environment variable key, such as
// CART_ADDR.
func Address(key string) (string, error) {
	address := os.Getenv(key)
	if _, _, err := net.SplitHostPort(address); err != nil {
		return "", fmt.Errorf("%s must be host:port, not %q", key, address)
	}
	return address, nil
}

// Listen opens the port that this process serves.
func Listen() (net.Listener, error) {
	port, err := strconv.ParseUint(os.Getenv("PORT"), 10, 16)
	if err != nil {
		return nil, fmt.Errorf("PORT must be a port number, not %q", os.Getenv("PORT"))
	}
	bind := os.Getenv("BIND")
	if bind == "" {
		bind = "127.0.0.1"
	}
	return net.Listen("tcp", net.JoinHostPort(bind, strconv.FormatUint(port, 10)))
}

// ServeGRPC serves the services that register adds and the standard health
// service until ctx ends. Requests in progress have stopTimeout to finish.
func ServeGRPC(ctx context.Context, register func(grpc.ServiceRegistrar)) error {
	listener, err := Listen()
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	register(server)
	healthServer := health.NewServer()
	healthpb.RegisterHealthServer(server, healthServer)

	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-ctx.Done()
		healthServer.Shutdown()
		timer := time.AfterFunc(stopTimeout, server.Stop)
		defer timer.Stop()
		server.GracefulStop()
	}()
	if err := server.Serve(listener); err != nil {
		return err
	}
	<-stopped
	return nil
}

// ServeHTTP serves handler until ctx ends. Requests in progress have stopTimeout
// to finish.
func ServeHTTP(ctx context.Context, handler http.Handler) error {
	listener, err := Listen()
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}

	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-ctx.Done()
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			server.Close()
		}
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	<-stopped
	return nil
}
