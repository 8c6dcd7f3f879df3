// Package bugs lists the call sites where the shop tolerates the failure of a
// call, and selects the ones at which the check is left out.
//
// A bug is always a missing check: where it is planted, the error of the call
// is returned instead of being handled. Bugs do not depend on which services
// are up, and do not count calls.
//
// SHOP_BUGS selects the bugs: unset or "paper" for the two bugs of 3MileBeach
// §5.3 and Figure 5, "0" for none, "random:SEED" for one or two others, chosen
// by SEED, a whole number.
package bugs

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// Site is a tolerant call site: the page and what the call is for.
type Site string

// The tolerant call sites.
const (
	HomeCurrencies         Site = "home.currencies"
	HomeProducts           Site = "home.products"
	HomeCart               Site = "home.cart"
	HomeConvert            Site = "home.convert"
	HomeAds                Site = "home.ads"
	HomeDefaultAd          Site = "home.defaultad"
	ProductCurrencies      Site = "product.currencies"
	ProductConvert         Site = "product.convert"
	ProductCart            Site = "product.cart"
	ProductRecommendations Site = "product.recommendations"
	ProductAds             Site = "product.ads"
	CartCurrencies         Site = "cart.currencies"
	CartProducts           Site = "cart.products"
	CartConvert            Site = "cart.convert"
	CartQuote              Site = "cart.quote"
	CartRecommendations    Site = "cart.recommendations"
	CheckoutEmail          Site = "checkout.email"
	CheckoutEmpty          Site = "checkout.empty"
)

// Description describes a site.
type Description struct {
	Site    Site
	Service string // the service that makes the call
	Call    string // the call whose error is checked
	Repair  string // what the shop does instead if the call fails
	Paper   string // the paper's name of the bug if the check is missing; may be empty
}

// Sites describes all sites. SHOP_BUGS=random depends on their order: add new
// ones at the end.
var Sites = []Description{
	{HomeCurrencies, "frontend", "currency/GetCurrencies", "catalogue prices, not converted", ""},
	{HomeProducts, "frontend", "catalogue/ListProducts", "an empty list and a notice", ""},
	{HomeCart, "frontend", "cart/GetCart", "no item count beside the cart", ""},
	{HomeConvert, "frontend", "currency/Convert", "that price, not converted", "SimpleTFI"},
	{HomeAds, "frontend", "ads/GetAds", "the default advertisement", ""},
	{HomeDefaultAd, "frontend", "currency/Convert", "the default advertisement's price, not converted", "DeepRLFI"},
	{ProductCurrencies, "frontend", "currency/GetCurrencies", "the catalogue price, not converted", ""},
	{ProductConvert, "frontend", "currency/Convert", "the catalogue price, not converted", ""},
	{ProductCart, "frontend", "cart/GetCart", "no item count beside the cart", ""},
	{ProductRecommendations, "frontend", "recommendation/ListRecommendations", "no recommendations", ""},
	{ProductAds, "frontend", "ads/GetAds", "no advertisement", ""},
	{CartCurrencies, "frontend", "currency/GetCurrencies", "catalogue prices, not converted", ""},
	{CartProducts, "frontend", "catalogue/GetProduct", "the line without name and price", ""},
	{CartConvert, "frontend", "currency/Convert", "all prices of the cart, not converted", ""},
	{CartQuote, "frontend", "shipping/GetQuote", "a note that shipping costs follow at checkout", ""},
	{CartRecommendations, "frontend", "recommendation/ListRecommendations", "no recommendations", ""},
	{CheckoutEmail, "checkout", "email/SendConfirmation", "an order without e-mail", ""},
	{CheckoutEmpty, "checkout", "cart/EmptyCart", "an order whose cart is still full", ""},
}

// Set is a set of sites whose check is missing. The zero value is empty.
type Set struct {
	missing []Site // in the order of Sites
}

// Missing reports whether the check at site was left out.
func (s Set) Missing(site Site) bool { return slices.Contains(s.missing, site) }

// String lists the sites, such as "home.ads, product.cart", or "none".
func (s Set) String() string {
	if len(s.missing) == 0 {
		return "none"
	}
	names := make([]string, len(s.missing))
	for i, site := range s.missing {
		names[i] = string(site)
	}
	return strings.Join(names, ", ")
}

// Parse parses a value of SHOP_BUGS. Equal values give equal sets in every
// process.
func Parse(value string) (Set, error) {
	switch value {
	case "", "paper":
		return pick(func(_ int, d Description) bool { return d.Paper != "" }), nil
	case "0":
		return Set{}, nil
	}
	text, random := strings.CutPrefix(value, "random:")
	seed, err := strconv.ParseUint(text, 10, 64)
	if !random || err != nil {
		return Set{}, fmt.Errorf(`SHOP_BUGS must be "paper", "0" or "random:" and a whole number, not %q`, value)
	}
	return oneOrTwo(seed), nil
}

// List formats the table of sites.
func List() string {
	var b strings.Builder
	for _, d := range Sites {
		fmt.Fprintf(&b, "%-24s %-9s %-35s %s\n", d.Site, d.Service, d.Call, d.Paper)
	}
	return b.String()
}

// oneOrTwo only uses the raw sequence of the generator, which is part of its
// specification.
func oneOrTwo(seed uint64) Set {
	var candidates []int
	for i, d := range Sites {
		if d.Paper == "" {
			candidates = append(candidates, i)
		}
	}
	source := rand.NewPCG(seed, 0)
	picked := map[int]bool{}
	for count := 1 + source.Uint64()%2; count > 0; count-- {
		i := source.Uint64() % uint64(len(candidates))
		picked[candidates[i]] = true
		candidates = slices.Delete(candidates, int(i), int(i)+1)
	}
	return pick(func(i int, _ Description) bool { return picked[i] })
}

func pick(selected func(int, Description) bool) Set {
	var set Set
	for i, d := range Sites {
		if selected(i, d) {
			set.missing = append(set.missing, d.Site)
		}
	}
	return set
}
