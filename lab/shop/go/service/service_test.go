package service

import (
	"context"
	"net"
	"net/http"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// freePort sets PORT to a free port and returns the address.
func freePort(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	t.Setenv("PORT", port)
	return listener.Addr().String()
}

// healthy waits until the health service at address replies, and returns how
// long that took.
func healthy(t *testing.T, conn *grpc.ClientConn) time.Duration {
	start := time.Now()
	for time.Since(start) < 5*time.Second {
		reply, err := healthpb.NewHealthClient(conn).Check(context.Background(), &healthpb.HealthCheckRequest{})
		if err == nil && reply.Status == healthpb.HealthCheckResponse_SERVING {
			return time.Since(start)
		}
		time.Sleep(2 * time.Millisecond)
	}
	t.Fatal("never healthy")
	return 0
}

func TestStoppedGRPCServiceFailsAtOnceAndIsReconnected(t *testing.T) {
	conn, err := DialAddress(freePort(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for range 2 {
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { done <- ServeGRPC(ctx, func(grpc.ServiceRegistrar) {}) }()
		if took := healthy(t, conn); took > time.Second {
			t.Errorf("reconnected after %v", took)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		// long enough for the backoff to reach its maximum
		for end := time.Now().Add(1200 * time.Millisecond); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			start := time.Now()
			_, err := healthpb.NewHealthClient(conn).Check(context.Background(), &healthpb.HealthCheckRequest{})
			if status.Code(err) != codes.Unavailable || time.Since(start) > 500*time.Millisecond {
				t.Fatalf("%v after %v", err, time.Since(start))
			}
		}
	}
}

func TestHTTPServerWaitsForRequestsButNotForever(t *testing.T) {
	address := freePort(t)
	entered := make(chan struct{})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		done <- ServeHTTP(ctx, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			close(entered)
			<-r.Context().Done()
		}))
	}()
	go func() {
		for {
			if _, err := http.Get("http://" + address); err == nil {
				return
			}
			select {
			case <-entered:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	<-entered
	start := time.Now()
	stop()
	if err := <-done; err != nil || time.Since(start) > 2*time.Second {
		t.Errorf("%v after %v", err, time.Since(start))
	}
}

func TestInvalidSettings(t *testing.T) {
	for _, port := range []string{"", "x", "-1", "65536"} {
		t.Setenv("PORT", port)
		if listener, err := Listen(); err == nil {
			listener.Close()
			t.Errorf("PORT=%s accepted", port)
		}
	}
	for _, address := range []string{"", "localhost", "a:b:c"} {
		t.Setenv("CART_ADDR", address)
		if conn, err := Dial("CART_ADDR"); err == nil {
			conn.Close()
			t.Errorf("CART_ADDR=%s accepted", address)
		}
	}
}
