package service

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
)

// callTimeout bounds every single call to another service, on top of the
// deadline the caller already has.
const callTimeout = 3 * time.Second

// Dial returns the one connection this process keeps to the service named by
// the environment variable key, such as CART_ADDR. It does not wait for that
// service: calls made while it is away fail at once with UNAVAILABLE and are
// never repeated, and a service that comes back is found again within half a
// second.
func Dial(key string) (*grpc.ClientConn, error) {
	address, err := Address(key)
	if err != nil {
		return nil, err
	}
	return DialAddress(address)
}

// DialAddress is Dial for a known host:port.
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
