// Package frontend serves the shop's pages. It calls the other services, one
// after the other, and replies with an HTML page or, if the request prefers it
// or the path begins with /api, with the same page as JSON.
//
// A page only depends on the request and on the replies of the services, not on
// time or randomness. Where a page can do without a call, the failure is handled
// at a site of package bugs. Where it cannot, the page is a 503 with the reason.
// A 500 is always an unhandled error.
package frontend

import (
	"context"
	"net/http"

	"google.golang.org/grpc"

	"shop.example/bugs"
	"shop.example/gen"
	"shop.example/problems"
)

// Clients are the clients of the services that the frontend calls.
type Clients struct {
	Currency       gen.CurrencyClient
	Catalogue      gen.CatalogueClient
	Cart           gen.CartClient
	Ads            gen.AdsClient
	Recommendation gen.RecommendationClient
	Shipping       gen.ShippingClient
	Payment        gen.PaymentClient
	Checkout       gen.CheckoutClient
}

// Connect creates all clients. It calls dial with names such as "CART_ADDR".
func Connect[C grpc.ClientConnInterface](dial func(key string) (C, error)) (*Clients, error) {
	conns := map[string]C{}
	for _, name := range []string{"CURRENCY", "CATALOGUE", "CART", "ADS", "RECOMMENDATION",
		"SHIPPING", "PAYMENT", "CHECKOUT"} {
		conn, err := dial(name + "_ADDR")
		if err != nil {
			return nil, err
		}
		conns[name] = conn
	}
	return &Clients{
		Currency:       gen.NewCurrencyClient(conns["CURRENCY"]),
		Catalogue:      gen.NewCatalogueClient(conns["CATALOGUE"]),
		Cart:           gen.NewCartClient(conns["CART"]),
		Ads:            gen.NewAdsClient(conns["ADS"]),
		Recommendation: gen.NewRecommendationClient(conns["RECOMMENDATION"]),
		Shipping:       gen.NewShippingClient(conns["SHIPPING"]),
		Payment:        gen.NewPaymentClient(conns["PAYMENT"]),
		Checkout:       gen.NewCheckoutClient(conns["CHECKOUT"]),
	}, nil
}

// Server serves the customers' requests.
type Server struct {
	*Clients
	bugs     bugs.Set
	problems problems.Log
}

// New returns a server that leaves out the checks in missing.
func New(clients *Clients, missing bugs.Set) *Server {
	return &Server{Clients: clients, bugs: missing}
}

// Handler routes requests to the pages.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	page := func(method, path string, build builder) {
		mux.Handle(method+" "+path, s.page(build))
		mux.Handle(method+" /api"+path, s.page(build))
	}
	mux.Handle("GET /{$}", s.page(s.home))
	mux.Handle("GET /api/home", s.page(s.home))
	page("GET", "/product/{id}", s.product)
	page("GET", "/cart", s.cart)
	page("POST", "/cart", s.addToCart)
	page("POST", "/cart/empty", s.emptyCart)
	page("POST", "/checkout", s.checkout)
	page("GET", "/orders", s.orders)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.Write([]byte("ok\n"))
	})
	mux.Handle("/", s.page(func(*http.Request, visitor) (any, error) {
		return nil, &statusError{status: http.StatusNotFound, text: "There is nothing here."}
	}))
	return mux
}

// tolerate reports whether the failure of the call at site is handled, and logs
// it if so.
func (s *Server) tolerate(site bugs.Site, err error) bool {
	if s.bugs.Missing(site) {
		return false
	}
	s.problems.Add(string(site), err)
	return true
}

// convert converts an amount to another currency.
func (s *Server) convert(ctx context.Context, amount *gen.Money, currency string) (*gen.Money, error) {
	return s.Currency.Convert(ctx, &gen.ConvertRequest{From: amount, To: currency})
}
