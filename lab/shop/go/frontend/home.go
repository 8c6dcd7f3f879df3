package frontend

import (
	"context"
	"net/http"

	"shop.example/bugs"
	"shop.example/gen"
)

// homePage is an advertisement and the list of all products.
type homePage struct {
	frame
	Products []card `json:"products"`
	Ad       *adBox `json:"ad,omitempty"`
}

func (*homePage) template() string { return "home" }

// card is a product in a list.
type card struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Picture string `json:"-"`
	Price   *price `json:"price,omitempty"`
}

// adBox is an advertisement. Only the default one has a price.
type adBox struct {
	Text      string `json:"text"`
	ProductID string `json:"product_id,omitempty"`
	Price     *price `json:"price,omitempty"`
}

// The default advertisement is for a gift card.
const defaultAdText = "Not sure what they like? Give a gift card worth"

func defaultAdPrice() *gen.Money { return &gen.Money{Currency: catalogueCurrency, Hundredths: 2500} }

// home makes 14 calls to four services if none fails, in this order: currencies,
// products, cart, ten conversions, advertisements.
func (s *Server) home(r *http.Request, v visitor) (any, error) {
	ctx := r.Context()
	page := &homePage{frame: frame{Title: "All things"}, Products: []card{}}
	if err := s.chooseCurrency(ctx, &page.frame, v, bugs.HomeCurrencies); err != nil {
		return nil, err
	}
	list, err := s.Catalogue.ListProducts(ctx, &gen.Empty{})
	if err != nil {
		if !s.tolerate(bugs.HomeProducts, err) {
			return nil, err
		}
		page.notice("Our products cannot be shown at the moment.")
	}
	if err := s.countCart(ctx, &page.frame, v, bugs.HomeCart); err != nil {
		return nil, err
	}
	for _, product := range list.GetProducts() {
		amount, err := s.priceOf(ctx, &page.frame, product, bugs.HomeConvert)
		if err != nil {
			return nil, err
		}
		page.Products = append(page.Products, cardOf(product, amount))
	}
	page.Ad, err = s.homeAd(ctx, &page.frame)
	if err != nil {
		return nil, err
	}
	return page, nil
}

// homeAd returns an advertisement, or the default one with its price in the
// customer's currency.
func (s *Server) homeAd(ctx context.Context, f *frame) (*adBox, error) {
	list, err := s.Ads.GetAds(ctx, &gen.AdsRequest{})
	if err == nil {
		return adBoxOf(list), nil
	}
	if !s.tolerate(bugs.HomeAds, err) {
		return nil, err
	}
	amount, err := s.convert(ctx, defaultAdPrice(), f.Currency)
	if err != nil {
		if !s.tolerate(bugs.HomeDefaultAd, err) {
			return nil, err
		}
		amount = defaultAdPrice()
	}
	return &adBox{Text: defaultAdText, Price: priceFrom(amount)}, nil
}

// priceOf returns the price of a product in the page's currency, or in the
// catalogue's if it cannot be converted.
func (s *Server) priceOf(ctx context.Context, f *frame, product *gen.Product, site bugs.Site) (*gen.Money, error) {
	if !f.converts {
		return product.Price, nil
	}
	amount, err := s.convert(ctx, product.Price, f.Currency)
	if err != nil {
		if !s.tolerate(site, err) {
			return nil, err
		}
		f.notice("Some prices could not be converted.")
		return product.Price, nil
	}
	return amount, nil
}

func cardOf(product *gen.Product, amount *gen.Money) card {
	return card{ID: product.Id, Name: product.Name, Picture: product.Picture, Price: priceFrom(amount)}
}

func adBoxOf(list *gen.AdList) *adBox {
	if len(list.GetAds()) == 0 {
		return nil
	}
	ad := list.Ads[0]
	return &adBox{Text: ad.Text, ProductID: ad.ProductId}
}
