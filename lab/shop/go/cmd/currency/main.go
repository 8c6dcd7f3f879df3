// Command currency serves the currency service.
package main

import (
	"context"

	"google.golang.org/grpc"

	"shop.example/currency"
	"shop.example/gen"
	"shop.example/service"
)

func main() {
	service.Main("currency", func(ctx context.Context) error {
		return service.ServeGRPC(ctx, func(server grpc.ServiceRegistrar) {
			gen.RegisterCurrencyServer(server, currency.New())
		})
	})
}
