// Package ads stands in for the advertisement service, which is written in Java.
// Like that service it selects by the product on the page and never at random,
// so that equal requests give equal pages.
package ads

import (
	"context"

	"shop.example/gen"
)

// onOtherPages is shown on pages without a single product.
const onOtherPages = ""

// Server implements the Ads service.
type Server struct {
	gen.UnimplementedAdsServer
	byProduct map[string]*gen.AdList
}

// New returns a server ready to be registered.
func New() *Server {
	ad := func(productID, text string) *gen.AdList {
		return &gen.AdList{Ads: []*gen.Ad{{ProductId: productID, Text: text}}}
	}
	return &Server{byProduct: map[string]*gen.AdList{
		onOtherPages: ad("lamp-02", "Longer evenings? The reading lamp is back in stock."),
		"mug-01":     ad("book-04", "Tea goes well with an empty page: the field notebook."),
		"lamp-02":    ad("plant-05", "Something green beside it: the window fern."),
		"book-04":    ad("lamp-02", "Write on after dark: the reading lamp."),
		"chair-03":   ad("clock-06", "A place to sit and a clock that does not tick."),
		"pan-08":     ad("bag-07", "Bring the potatoes home in a market bag."),
		"kite-09":    ad("bell-10", "Faster to the beach with a clear ring: the bicycle bell."),
	}}
}

// GetAds returns at least one advertisement.
func (s *Server) GetAds(_ context.Context, request *gen.AdsRequest) (*gen.AdList, error) {
	if list := s.byProduct[request.GetProductId()]; list != nil {
		return list, nil
	}
	return s.byProduct[onOtherPages], nil
}
