package service

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
)

// callTimeout bounds each call to another service, in addition to the caller's
// own deadline.
const callTimeout = 3 * time.Second

// Dial returns a connection to the service whose address is in the environment
// variable key, such as CART_ADDR. It does not wait for the service. While the
// service is down, calls fail immediately with UNAVAILABLE and are not retried. The
// connection recovers within half a second after the service is up again.
func Dial(key string) (*grpc.ClientConn, error) {
	address, err := Address(key)
	if err != nil {
		return nil, err
	}
	return DialAddress(address)
}

// DialAddress is Dial for a host:port.
func DialAddress(address string) (*grpc.ClientConn, error) {
	return grpc.NewClient(address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDisableRetry(),
		grpc.WithDisableServiceConfig(),
		grpc.WithIdleTimeout(0),
		grpc.WithNoProxy(),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay:  50 * time.Millisecond,
				Multiplier: 1.5,
				Jitter:     0.2,
				MaxDelay:   400 * time.Millisecond,
			},
			MinConnectTimeout: time.Second,
		}),
		grpc.WithUnaryInterceptor(withCallTimeout),
	)
}

func withCallTimeout(ctx context.Context, method string, request, reply any,
	conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return invoke(ctx, method, request, reply, conn, options...)
}
