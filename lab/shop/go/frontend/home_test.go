// The home page under faults: the three spaces of 3MileBeach §5.3, explored
// completely. A fault injector must find the same numbers.
package frontend_test

import (
	"io"
	"log"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"shop.example/internal/testshop"
)

// The problems that these tests cause are not logged.
func TestMain(m *testing.M) {
	log.SetOutput(io.Discard)
	os.Exit(m.Run())
}

var home = testshop.Request{Path: "/"}

// allServices are all services except the frontend.
var allServices = []string{"ads", "cart", "catalogue", "checkout", "currency", "email", "payment",
	"recommendation", "shipping"}

func TestHomeMakes14CallsTo4Services(t *testing.T) {
	shop := testshop.New(t, "")
	if status := shop.Send(home).Code; status != http.StatusOK {
		t.Fatalf("status %d", status)
	}
	want := []string{"currency/GetCurrencies", "catalogue/ListProducts", "cart/GetCart"}
	want = append(want, slices.Repeat([]string{"currency/Convert"}, 10)...)
	want = append(want, "ads/GetAds")
	if got := testshop.Names(shop.Calls); !slices.Equal(got, want) {
		t.Errorf("calls %v", got)
	}
	if got := testshop.Services(shop.Calls); len(got) != 4 {
		t.Errorf("services %v", got)
	}
}

// sweepServices requests the home page with every subset of services down and
// returns the subsets with a 5xx.
func sweepServices(t *testing.T, shopBugs string, services []string) [][]string {
	shop := testshop.New(t, shopBugs)
	var failed [][]string
	for bits := range 1 << len(services) {
		var down []string
		for i, service := range services {
			if bits>>i&1 == 1 {
				down = append(down, service)
			}
		}
		shop.Reset(func(call testshop.Call) bool { return slices.Contains(down, call.Service) })
		if shop.Send(home).Code >= 500 {
			failed = append(failed, down)
		}
	}
	return failed
}

func TestServiceSubsetsFailWhenAdsAndCurrencyAreDown(t *testing.T) {
	for _, space := range []struct {
		services []string
		failures int
	}{
		{[]string{"ads", "cart", "catalogue", "currency"}, 4}, // of 16
		{allServices, 128}, // of 512
	} {
		failed := sweepServices(t, "paper", space.services)
		if len(failed) != space.failures {
			t.Errorf("%d of %d failed: %v", len(failed), 1<<len(space.services), failed)
		}
		for _, down := range failed {
			if !slices.Contains(down, "ads") || !slices.Contains(down, "currency") {
				t.Errorf("failed with only %v down", down)
			}
		}
		if failed := sweepServices(t, "0", space.services); len(failed) != 0 {
			t.Errorf("repaired shop failed: %v", failed)
		}
	}
}

// sweepCalls requests the home page with every subset of the 14 calls failing
// and returns the number of 5xx. A call is identified by its method and its
// number among the calls to that method.
func sweepCalls(t *testing.T, shopBugs string) int {
	shop := testshop.New(t, shopBugs)
	shop.Send(home)
	calls := shop.Calls
	failed := 0
	for bits := range 1 << len(calls) {
		shop.Reset(func(call testshop.Call) bool {
			i := slices.Index(calls, call)
			return i >= 0 && bits>>i&1 == 1
		})
		if shop.Send(home).Code >= 500 {
			failed++
		}
	}
	return failed
}

// If GetCurrencies and ListProducts succeed (4,096 cases), all cases fail except
// the 4 in which no conversion fails. Otherwise there are no product prices to
// convert (12,288 cases), and the page fails if both GetAds and the first
// conversion, that of the default advertisement, fail: a quarter, 3,072.
func TestTemporalSpaceFails7164Of16384(t *testing.T) {
	if got := sweepCalls(t, "paper"); got != 4096-4+3072 {
		t.Errorf("%d cases failed", got)
	}
	if got := sweepCalls(t, "0"); got != 0 {
		t.Errorf("repaired shop failed %d times", got)
	}
}

func TestCurrencyFailsAfterItsFirstReply(t *testing.T) {
	afterFirst := func(call testshop.Call) bool { return call.Service == "currency" && call.Method == "Convert" }
	for shopBugs, want := range map[string]int{"paper": 500, "0": 200} {
		shop := testshop.New(t, shopBugs)
		shop.Reset(afterFirst)
		if got := shop.Send(home).Code; got != want {
			t.Errorf("SHOP_BUGS=%s: status %d, want %d", shopBugs, got, want)
		}
	}
}

func TestHomeReportsWhatIsMissing(t *testing.T) {
	for service, want := range map[string][]string{
		"currency":  {"Prices are in US dollars", `"$14.50"`},
		"catalogue": {"Our products cannot be shown", `"products":[]`},
		"cart":      {"Your cart cannot be reached"},
		"ads":       {"gift card", `"€23.00"`},
	} {
		shop := testshop.New(t, "paper")
		shop.Reset(func(call testshop.Call) bool { return call.Service == service })
		body := shop.Send(home).Body.String()
		for _, text := range want {
			if !strings.Contains(body, text) {
				t.Errorf("without %s: no %q in %s", service, text, body)
			}
		}
	}
}

func BenchmarkHome(b *testing.B) {
	shop := testshop.New(b, "")
	request := home
	request.HTML = true
	for b.Loop() {
		shop.Reset(nil)
		shop.Send(request)
	}
}
