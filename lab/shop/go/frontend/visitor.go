package frontend

import (
	"context"
	"net/http"
	"slices"

	"shop.example/bugs"
	"shop.example/gen"
)

const (
	userCookie      = "shop_user"
	currencyCookie  = "shop_currency"
	defaultUser     = "guest"
	defaultCurrency = "EUR"
	// catalogueCurrency is the currency of prices in the catalogue.
	catalogueCurrency = "USD"
)

// visitor is the customer's data from cookies and the URL.
type visitor struct {
	user     string
	currency string // requested, not necessarily accepted
}

// visitorOf reads the cookies. ?currency=GBP selects a currency for this request
// and, with a cookie, for later ones.
func visitorOf(w http.ResponseWriter, r *http.Request) visitor {
	v := visitor{user: defaultUser, currency: defaultCurrency}
	if cookie, err := r.Cookie(userCookie); err == nil && isName(cookie.Value) {
		v.user = cookie.Value
	}
	if cookie, err := r.Cookie(currencyCookie); err == nil && isCurrency(cookie.Value) {
		v.currency = cookie.Value
	}
	if r.URL.RawQuery == "" {
		return v
	}
	if chosen := r.URL.Query().Get("currency"); isCurrency(chosen) {
		v.currency = chosen
		http.SetCookie(w, &http.Cookie{Name: currencyCookie, Value: chosen, Path: "/",
			HttpOnly: true, SameSite: http.SameSiteLaxMode})
	}
	return v
}

// isName reports whether the cart service accepts s as a user.
func isName(s string) bool {
	for _, c := range []byte(s) {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
			return false
		}
	}
	return len(s) >= 1 && len(s) <= 64
}

func isCurrency(s string) bool {
	for _, c := range []byte(s) {
		if c < 'A' || c > 'Z' {
			return false
		}
	}
	return len(s) == 3
}

// frame has the parts that all pages share.
type frame struct {
	Title      string   `json:"-"`
	Currency   string   `json:"currency,omitempty"`
	Currencies []string `json:"currencies,omitempty"` // to choose from
	CartSize   *int     `json:"cart_size,omitempty"`  // pieces; nil: unknown
	Notices    []string `json:"notices,omitempty"`
	// converts is true if the currency service has replied, so that prices
	// can be converted to Currency.
	converts bool
}

func (f *frame) notice(text string) {
	if !slices.Contains(f.Notices, text) {
		f.Notices = append(f.Notices, text)
	}
}

// chooseCurrency requests the list of currencies and uses the visitor's if it is
// one of them. If the call fails, prices stay in the catalogue's currency.
func (s *Server) chooseCurrency(ctx context.Context, f *frame, v visitor, site bugs.Site) error {
	list, err := s.Currency.GetCurrencies(ctx, &gen.Empty{})
	if err != nil {
		if !s.tolerate(site, err) {
			return err
		}
		f.Currency, f.Currencies = catalogueCurrency, []string{catalogueCurrency}
		f.notice("Prices are in US dollars at the moment.")
		return nil
	}
	f.Currency, f.Currencies, f.converts = v.currency, list.Codes, true
	if !slices.Contains(list.Codes, v.currency) {
		f.Currency = defaultCurrency
	}
	return nil
}

// countCart sets the number of pieces in the cart.
func (s *Server) countCart(ctx context.Context, f *frame, v visitor, site bugs.Site) error {
	contents, err := s.Cart.GetCart(ctx, &gen.UserRequest{User: v.user})
	if err != nil {
		if !s.tolerate(site, err) {
			return err
		}
		f.notice("Your cart cannot be reached at the moment.")
		return nil
	}
	size := pieces(contents)
	f.CartSize = &size
	return nil
}

func pieces(contents *gen.CartContents) int {
	sum := 0
	for _, item := range contents.GetItems() {
		sum += int(item.Quantity)
	}
	return sum
}
