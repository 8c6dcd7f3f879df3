package testshop

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"shop.example/bugs"
	"shop.example/catalogue"
	"shop.example/checkout"
	"shop.example/frontend"
	"shop.example/gen"
	"shop.example/internal/testshop/ads"
	"shop.example/internal/testshop/currency"
	"shop.example/internal/testshop/shipping"
)

// Shop is all ten services in one process.
type Shop struct {
	Network
	Cart    *Cart
	Payment *Payment
	Email   *Email

	handler http.Handler
}

// Request is a customer's request. With a Form it is a POST.
type Request struct {
	Path string
	Form string
	HTML bool // instead of JSON
	User string
}

// Buy is a form that the checkout accepts.
const Buy = "email=ann@example.org&address=Quay+1&card=4000+0000+0000+0002"

// Pages are requests for the pages with tolerant call sites. They need
// FillCart.
var Pages = []Request{
	{Path: "/"},
	{Path: "/product/mug-01"},
	{Path: "/cart"},
	{Path: "/checkout", Form: Buy},
}

// New opens a shop with the bugs of a value of SHOP_BUGS.
func New(t testing.TB, shopBugs string) *Shop {
	t.Helper()
	missing, err := bugs.Parse(shopBugs)
	if err != nil {
		t.Fatal(err)
	}
	return Open(t, missing)
}

// Open opens a shop with the bugs in missing.
func Open(t testing.TB, missing bugs.Set) *Shop {
	t.Helper()
	s := &Shop{Cart: &Cart{}, Payment: &Payment{}, Email: &Email{}}
	toCheckout, err := checkout.Connect(s.Dial)
	if err != nil {
		t.Fatal(err)
	}
	toAll, err := frontend.Connect(s.Dial)
	if err != nil {
		t.Fatal(err)
	}
	gen.RegisterCurrencyServer(s, currency.New())
	gen.RegisterCatalogueServer(s, catalogue.New())
	gen.RegisterAdsServer(s, ads.New())
	gen.RegisterShippingServer(s, shipping.New())
	gen.RegisterCheckoutServer(s, checkout.New(toCheckout, missing))
	gen.RegisterCartServer(s, s.Cart)
	gen.RegisterPaymentServer(s, s.Payment)
	gen.RegisterEmailServer(s, s.Email)
	gen.RegisterRecommendationServer(s, &Recommendation{catalogue: toAll.Catalogue})
	s.handler = frontend.New(toAll, missing).Handler()
	return s
}

var _ grpc.ServiceRegistrar = (*Shop)(nil)

// FillCart puts two products into the guest's cart and clears the calls.
func (s *Shop) FillCart() *Shop {
	s.Cart.put("guest", &gen.CartItem{ProductId: "mug-01", Quantity: 2})
	s.Cart.put("guest", &gen.CartItem{ProductId: "kite-09", Quantity: 1})
	s.Reset(nil)
	return s
}

// Handler returns the frontend's handler.
func (s *Shop) Handler() http.Handler { return s.handler }

// Send sends a request to the frontend.
func (s *Shop) Send(request Request) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", request.Path, nil)
	if request.Form != "" {
		r = httptest.NewRequest("POST", request.Path, strings.NewReader(request.Form))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if !request.HTML {
		r.Header.Set("Accept", "application/json")
	}
	if request.User != "" {
		r.AddCookie(&http.Cookie{Name: "shop_user", Value: request.User})
	}
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	return w
}
