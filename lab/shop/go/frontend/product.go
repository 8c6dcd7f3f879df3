package frontend

import (
	"context"
	"net/http"

	"shop.example/bugs"
	"shop.example/gen"
)

// productPage shows one product.
type productPage struct {
	frame
	Product         card   `json:"product"`
	Text            string `json:"text"`
	Recommendations []card `json:"recommendations,omitempty"` // without prices
	Ad              *adBox `json:"ad,omitempty"`
}

func (*productPage) template() string { return "product" }

func (s *Server) product(r *http.Request, v visitor) (any, error) {
	ctx, id := r.Context(), r.PathValue("id")
	page := &productPage{}
	product, err := s.Catalogue.GetProduct(ctx, &gen.ProductRequest{Id: id})
	if err != nil {
		return nil, essential("the catalogue", err)
	}
	page.Title, page.Text = product.Name, product.Text
	if err := s.chooseCurrency(ctx, &page.frame, v, bugs.ProductCurrencies); err != nil {
		return nil, err
	}
	amount, err := s.priceOf(ctx, &page.frame, product, bugs.ProductConvert)
	if err != nil {
		return nil, err
	}
	page.Product = cardOf(product, amount)
	if err := s.countCart(ctx, &page.frame, v, bugs.ProductCart); err != nil {
		return nil, err
	}
	page.Recommendations, err = s.recommend(ctx, []string{id}, bugs.ProductRecommendations)
	if err != nil {
		return nil, err
	}
	ads, err := s.Ads.GetAds(ctx, &gen.AdsRequest{ProductId: id})
	if err != nil && !s.tolerate(bugs.ProductAds, err) {
		return nil, err
	}
	page.Ad = adBoxOf(ads)
	return page, nil
}

// recommend returns products that go with others, or none if the call fails.
func (s *Server) recommend(ctx context.Context, ids []string, site bugs.Site) ([]card, error) {
	list, err := s.Recommendation.ListRecommendations(ctx, &gen.RecommendationRequest{ProductIds: ids})
	if err != nil && !s.tolerate(site, err) {
		return nil, err
	}
	var cards []card
	for _, product := range list.GetProducts() {
		cards = append(cards, card{ID: product.Id, Name: product.Name, Picture: product.Picture})
	}
	return cards, nil
}
