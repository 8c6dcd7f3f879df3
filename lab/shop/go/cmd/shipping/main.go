// Command shipping serves the shipping service.
package main

import (
	"context"

	"google.golang.org/grpc"

	"shop.example/gen"
	"shop.example/service"
	"shop.example/shipping"
)

func main() {
	service.Main("shipping", func(ctx context.Context) error {
		return service.ServeGRPC(ctx, func(server grpc.ServiceRegistrar) {
			gen.RegisterShippingServer(server, shipping.New())
		})
	})
}
