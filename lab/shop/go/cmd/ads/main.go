// Command ads serves the ads service.
package main

import (
	"context"

	"google.golang.org/grpc"

	"shop.example/ads"
	"shop.example/gen"
	"shop.example/service"
)

func main() {
	service.Main("ads", func(ctx context.Context) error {
		return service.ServeGRPC(ctx, func(server grpc.ServiceRegistrar) {
			gen.RegisterAdsServer(server, ads.New())
		})
	})
}
