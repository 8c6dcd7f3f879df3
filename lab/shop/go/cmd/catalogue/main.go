// Command catalogue serves the catalogue service.
package main

import (
	"context"

	"google.golang.org/grpc"

	"shop.example/catalogue"
	"shop.example/gen"
	"shop.example/service"
)

func main() {
	service.Main("catalogue", func(ctx context.Context) error {
		return service.ServeGRPC(ctx, func(server grpc.ServiceRegistrar) {
			gen.RegisterCatalogueServer(server, catalogue.New())
		})
	})
}
