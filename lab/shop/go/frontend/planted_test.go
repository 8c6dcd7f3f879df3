// The effect of a missing check on the pages. Failing one call at a time finds
// each missing check.
package frontend_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"shop.example/bugs"
	"shop.example/internal/testshop"
)

// outcome is a page and the one call that fails.
type outcome struct {
	page string
	call testshop.Call
}

// failuresOf requests every page once for each call of its good run, with that
// call failing, and returns the cases with a 5xx. Each case has a new shop.
func failuresOf(t *testing.T, shopBugs string) []outcome {
	var failed []outcome
	for _, page := range testshop.Pages {
		shop := testshop.New(t, shopBugs).FillCart()
		if w := shop.Send(page); w.Code != 200 {
			t.Fatalf("SHOP_BUGS=%s %s: %d %s", shopBugs, page.Path, w.Code, w.Body)
		}
		for _, call := range shop.Calls {
			shop := testshop.New(t, shopBugs).FillCart()
			shop.Reset(func(c testshop.Call) bool { return c == call })
			if shop.Send(page).Code >= 500 {
				failed = append(failed, outcome{page.Path, call})
			}
		}
	}
	return failed
}

func TestFailingOneCallFindsEveryPlantedSite(t *testing.T) {
	essential := failuresOf(t, "0")
	for seed := range 60 {
		shopBugs := fmt.Sprintf("random:%d", seed)
		set, err := bugs.Parse(shopBugs)
		if err != nil {
			t.Fatal(err)
		}
		failed := failuresOf(t, shopBugs)
		for _, d := range bugs.Sites {
			found := slices.ContainsFunc(failed, func(o outcome) bool {
				return isAt(o, d) && !slices.Contains(essential, o)
			})
			if found != set.Missing(d.Site) {
				t.Errorf("%s plants %v: found %s: %v", shopBugs, set, d.Site, found)
			}
		}
	}
}

// isAt reports whether a case fails the call at a site. On one page, all calls
// to one method belong to one site, since the home page's conversion for the
// default advertisement is not in its good run.
func isAt(o outcome, d bugs.Description) bool {
	page, _, _ := strings.Cut(string(d.Site), ".")
	at := strings.TrimPrefix(o.page, "/")
	if at == "" {
		at = "home"
	}
	return strings.HasPrefix(at, page) && d.Site != bugs.HomeDefaultAd &&
		o.call.Service+"/"+o.call.Method == d.Call
}

func TestOnlyEssentialCallsFailARepairedShop(t *testing.T) {
	var got []string
	for _, o := range failuresOf(t, "0") {
		got = append(got, fmt.Sprintf("%s %s/%s", o.page, o.call.Service, o.call.Method))
	}
	want := []string{
		"/product/mug-01 catalogue/GetProduct",
		"/cart cart/GetCart",
		"/checkout checkout/PlaceOrder",
		"/checkout cart/GetCart",
		"/checkout catalogue/GetProduct",
		"/checkout currency/Convert",
		"/checkout catalogue/GetProduct",
		"/checkout currency/Convert",
		"/checkout shipping/GetQuote",
		"/checkout currency/Convert",
		"/checkout payment/Charge",
		"/checkout shipping/Ship",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
}

// With no check missing there is never a 500: pages that cannot be shown are
// 503, whatever is down.
func TestRepairedShopNeverReturns500(t *testing.T) {
	for bits := range 1 << len(allServices) {
		down := func(call testshop.Call) bool { return bits>>slices.Index(allServices, call.Service)&1 == 1 }
		for _, page := range testshop.Pages {
			shop := testshop.New(t, "0").FillCart()
			shop.Reset(down)
			if code := shop.Send(page).Code; code != 200 && code != 503 {
				t.Fatalf("%s without %b: %d", page.Path, bits, code)
			}
		}
	}
}
