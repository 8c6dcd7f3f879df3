package checkout_test

import (
	"io"
	"log"
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

var buy = testshop.Request{Path: "/checkout", Form: testshop.Buy}

// goodRun lists the calls of an order of two products.
var goodRun = []string{
	"checkout/PlaceOrder",
	"cart/GetCart",
	"catalogue/GetProduct", "currency/Convert",
	"catalogue/GetProduct", "currency/Convert",
	"shipping/GetQuote", "currency/Convert",
	"payment/Charge",
	"shipping/Ship",
	"email/SendConfirmation",
	"cart/EmptyCart",
}

func TestOrderCallsSixServicesInOrder(t *testing.T) {
	shop := testshop.New(t, "").FillCart()
	w := shop.Send(buy)
	if got := testshop.Names(shop.Calls); w.Code != 200 || !slices.Equal(got, goodRun) {
		t.Errorf("%d, calls %v", w.Code, got)
	}
	if got := effectsOf(shop); got != "charged shipped mailed emptied" {
		t.Errorf("effects: %s", got)
	}
	if amount := shop.Payment.Receipts[0].Amount; amount.Hundredths != 6025 || amount.Currency != "EUR" {
		t.Errorf("charged %v", amount)
	}
}

// effectsOf lists the effects of an order on the other services.
func effectsOf(shop *testshop.Shop) string {
	shop.Reset(nil)
	var effects []string
	if len(shop.Payment.Receipts) > 0 {
		effects = append(effects, "charged")
	}
	if strings.Contains(shop.Send(testshop.Request{Path: "/orders"}).Body.String(), "parcel-") {
		effects = append(effects, "shipped")
	}
	if len(shop.Email.To) > 0 {
		effects = append(effects, "mailed")
	}
	if strings.Contains(shop.Send(testshop.Request{Path: "/cart"}).Body.String(), `"cart_size":0`) {
		effects = append(effects, "emptied")
	}
	return strings.Join(effects, " ")
}

// A failure before or at the charge has no effects, a failed shipment leaves
// the charge, and later failures do not end the order.
func TestEffectsThatAFailureLeaves(t *testing.T) {
	for i, name := range goodRun {
		want, status := "", 503
		switch name {
		case "shipping/Ship":
			want = "charged"
		case "email/SendConfirmation":
			want, status = "charged shipped emptied", 200
		case "cart/EmptyCart":
			want, status = "charged shipped mailed", 200
		}
		shop := testshop.New(t, "0").FillCart()
		shop.Reset(func(testshop.Call) bool { return len(shop.Calls) == i+1 })
		w := shop.Send(buy)
		if got := effectsOf(shop); w.Code != status || got != want {
			t.Errorf("%d %s fails: %d, effects %q, want %d, %q", i, name, w.Code, got, status, want)
		}
		if name == "email/SendConfirmation" && !strings.Contains(w.Body.String(), `"email_sent":false`) {
			t.Errorf("%s", w.Body)
		}
		if name == "cart/EmptyCart" && !strings.Contains(w.Body.String(), `"cart_emptied":false`) {
			t.Errorf("%s", w.Body)
		}
	}
}

func TestSameOrderInSameStateGivesSamePage(t *testing.T) {
	first := testshop.New(t, "").FillCart().Send(buy).Body.String()
	if second := testshop.New(t, "").FillCart().Send(buy).Body.String(); first != second {
		t.Errorf("%s\n%s", first, second)
	}
}
