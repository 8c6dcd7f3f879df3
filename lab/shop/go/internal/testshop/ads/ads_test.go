package ads

import (
	"context"
	"testing"

	"shop.example/catalogue"
	"shop.example/gen"
)

func TestEveryPageHasAnAdForAnotherProduct(t *testing.T) {
	ctx, stock := context.Background(), catalogue.New()
	list, err := stock.ListProducts(ctx, &gen.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	server, pages := New(), []string{onOtherPages, "no-such-product"}
	for _, product := range list.Products {
		pages = append(pages, product.Id)
	}
	for _, page := range pages {
		ads, err := server.GetAds(ctx, &gen.AdsRequest{ProductId: page})
		if err != nil || len(ads.Ads) != 1 || ads.Ads[0].ProductId == page {
			t.Errorf("%q: %v, %v", page, ads, err)
			continue
		}
		if _, err := stock.GetProduct(ctx, &gen.ProductRequest{Id: ads.Ads[0].ProductId}); err != nil {
			t.Errorf("%q: %v", page, err)
		}
	}
	for page := range server.byProduct {
		if _, err := stock.GetProduct(ctx, &gen.ProductRequest{Id: page}); page != onOtherPages && err != nil {
			t.Error(err)
		}
	}
}
