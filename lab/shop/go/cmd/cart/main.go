// Command cart serves the cart service. MEMCACHED_ADDR is the address of the
// memcached that stores carts.
package main

import (
	"context"

	"google.golang.org/grpc"

	"shop.example/cart"
	"shop.example/gen"
	"shop.example/service"
)

func main() {
	service.Main("cart", func(ctx context.Context) error {
		memcached, err := service.Address("MEMCACHED_ADDR")
		if err != nil {
			return err
		}
		return service.ServeGRPC(ctx, func(server grpc.ServiceRegistrar) {
			gen.RegisterCartServer(server, cart.New(memcached))
		})
	})
}
