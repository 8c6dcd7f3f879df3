package catalogue

import (
	"context"
	"regexp"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"shop.example/gen"
)

func TestAllTenProductsAreFound(t *testing.T) {
	server, ctx := New(), context.Background()
	list, err := server.ListProducts(ctx, &gen.Empty{})
	if err != nil || len(list.Products) != 10 {
		t.Fatalf("%v, %v", list, err)
	}
	for _, product := range list.Products {
		found, err := server.GetProduct(ctx, &gen.ProductRequest{Id: product.Id})
		if err != nil || found != product {
			t.Errorf("%s: %v, %v", product.Id, found, err)
		}
		if !regexp.MustCompile(`^`+product.Picture+`-\d\d$`).MatchString(product.Id) || product.Price.Currency != "USD" {
			t.Errorf("%v", product)
		}
	}
	if _, err := server.GetProduct(ctx, &gen.ProductRequest{Id: "mug-99"}); status.Code(err) != codes.NotFound {
		t.Errorf("%v", err)
	}
}
