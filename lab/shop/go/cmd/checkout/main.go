// Command checkout serves the checkout service. CART_ADDR, CATALOGUE_ADDR,
// CURRENCY_ADDR, SHIPPING_ADDR, PAYMENT_ADDR and EMAIL_ADDR are the addresses
// of the services that it calls. See package bugs for SHOP_BUGS.
package main

import (
	"context"
	"log"
	"os"

	"google.golang.org/grpc"

	"shop.example/bugs"
	"shop.example/checkout"
	"shop.example/gen"
	"shop.example/service"
)

func main() {
	service.Main("checkout", func(ctx context.Context) error {
		missing, err := bugs.Parse(os.Getenv("SHOP_BUGS"))
		if err != nil {
			return err
		}
		clients, err := checkout.Connect(service.Dial)
		if err != nil {
			return err
		}
		log.Printf("planted bugs: %s", missing)
		return service.ServeGRPC(ctx, func(server grpc.ServiceRegistrar) {
			gen.RegisterCheckoutServer(server, checkout.New(clients, missing))
		})
	})
}
