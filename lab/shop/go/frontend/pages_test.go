package frontend_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"shop.example/internal/testshop"
)

func TestStatuses(t *testing.T) {
	shop := testshop.New(t, "").FillCart()
	for _, test := range []struct {
		request testshop.Request
		status  int
		text    string
	}{
		{testshop.Request{Path: "/api/home"}, 200, `"cart_size":3`},
		{testshop.Request{Path: "/?currency=GBP"}, 200, `"£11.46"`},
		{testshop.Request{Path: "/?currency=XYZ"}, 200, `"€13.34"`},
		{testshop.Request{Path: "/", User: "ann"}, 200, `"cart_size":0`},
		{testshop.Request{Path: "/", User: "no such user!"}, 200, `"cart_size":3`},
		{testshop.Request{Path: "/product/kite-09"}, 200, "Beach kite"},
		{testshop.Request{Path: "/api/product/kite-09"}, 200, "Beach kite"},
		{testshop.Request{Path: "/product/none-00"}, 404, "no such product"},
		{testshop.Request{Path: "/nowhere"}, 404, "nothing here"},
		{testshop.Request{Path: "/cart"}, 200, `"total":{"currency":"EUR","hundredths":6025,`},
		{testshop.Request{Path: "/cart", Form: "product_id=none-00"}, 422, "no such product"},
		{testshop.Request{Path: "/cart", Form: "product_id=mug-01&quantity=0"}, 422, "1 to 99"},
		{testshop.Request{Path: "/cart", Form: "product_id=mug-01&quantity=2", User: "bob"}, 200, `"cart_size":2`},
		{testshop.Request{Path: "/cart", Form: "product_id=mug-01", User: "bob", HTML: true}, 303, ""},
		{testshop.Request{Path: "/cart", User: "bob", HTML: true}, 200, "Cart (3)"},
		{testshop.Request{Path: "/cart/empty", Form: "x=", User: "bob"}, 200, `"cart_size":0`},
		{testshop.Request{Path: "/cart", User: "bob", HTML: true}, 200, "nothing in it"},
		{testshop.Request{Path: "/checkout", Form: testshop.Buy, User: "bob"}, 422, "the cart is empty"},
		{testshop.Request{Path: "/checkout", Form: "email=a@b.c&address=x&card=stolen"}, 422, "card declined"},
		{testshop.Request{Path: "/checkout", Form: "card=1"}, 422, "postal address"},
		{testshop.Request{Path: "/checkout", Form: testshop.Buy, HTML: true}, 200, "€60.25"},
		{testshop.Request{Path: "/orders"}, 200, `"tracking_id":"parcel-`},
		{testshop.Request{Path: "/orders", HTML: true}, 200, "charge-1"},
	} {
		w := shop.Send(test.request)
		if w.Code != test.status || !strings.Contains(w.Body.String(), test.text) {
			t.Errorf("%+v: %d, no %q in %s", test.request, w.Code, test.text, w.Body)
		}
	}
}

func TestJSONBodies(t *testing.T) {
	shop := testshop.New(t, "")
	handler := shop.Handler()
	for body, want := range map[string]int{
		`{"product_id": "mug-01", "quantity": 2}`: 200,
		`{"product_id": "mug-01"}`:                200,
		`{"product_id": "mug-01", "quantity": 0}`: 422,
		`{}`:         422,
		`not JSON`:   400,
		`["mug-01"]`: 400,
	} {
		r := httptest.NewRequest("POST", "/api/cart", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json; charset=utf-8")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != want || !json.Valid(w.Body.Bytes()) {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
}

func TestHomeHTMLIsSmallAndAlwaysTheSame(t *testing.T) {
	request := testshop.Request{Path: "/", HTML: true}
	first := testshop.New(t, "").Send(request)
	if first.Code != http.StatusOK || first.Body.Len() > 8<<10 {
		t.Errorf("status %d, %d bytes", first.Code, first.Body.Len())
	}
	if again := testshop.New(t, "").Send(request); !bytes.Equal(first.Body.Bytes(), again.Body.Bytes()) {
		t.Error("a second shop shows another page")
	}
	if n := strings.Count(first.Body.String(), `class="card"`); n != 10 {
		t.Errorf("%d products", n)
	}
}

func TestHTMLPagesShowFaults(t *testing.T) {
	for _, page := range testshop.Pages {
		page.HTML = true
		shop := testshop.New(t, "0").FillCart()
		shop.Reset(func(call testshop.Call) bool {
			return !slices.Contains([]string{"GetProduct", "GetCart", "PlaceOrder"}, call.Method)
		})
		w := shop.Send(page)
		if !strings.HasSuffix(strings.TrimSpace(w.Body.String()), ">") {
			t.Errorf("%s ends in the middle: %s", page.Path, w.Body)
		}
		if page.Path == "/checkout" {
			if w.Code != 503 || !strings.Contains(w.Body.String(), "checkout cannot be reached") {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		} else if w.Code != 200 || !strings.Contains(w.Body.String(), `class="note"`) {
			t.Errorf("%s: %d %s", page.Path, w.Code, w.Body)
		}
	}
}

func TestCustomersTextIsEscaped(t *testing.T) {
	shop := testshop.New(t, "")
	w := shop.Send(testshop.Request{Path: "/checkout", HTML: true, Form: "email=a@b.c&address=x&card=1"})
	if w.Code != 422 {
		t.Fatalf("status %d", w.Code)
	}
	w = shop.Send(testshop.Request{Path: "/product/%3Cscript%3E", HTML: true})
	if w.Code != 404 || strings.Contains(w.Body.String(), "<script>") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestHealthzCallsNoService(t *testing.T) {
	shop := testshop.New(t, "")
	if w := shop.Send(testshop.Request{Path: "/healthz"}); w.Code != 200 || len(shop.Calls) != 0 {
		t.Errorf("%d, calls %v", w.Code, shop.Calls)
	}
}

func TestChoiceOfCurrencyIsRemembered(t *testing.T) {
	shop := testshop.New(t, "")
	w := shop.Send(testshop.Request{Path: "/?currency=JPY"})
	cookies := w.Result().Cookies()
	if len(cookies) != 1 || !strings.Contains(w.Body.String(), `"¥2190"`) {
		t.Fatalf("%v %s", cookies, w.Body)
	}
	r := httptest.NewRequest("GET", "/product/mug-01", nil)
	r.AddCookie(cookies[0])
	w = httptest.NewRecorder()
	shop.Handler().ServeHTTP(w, r)
	if !strings.Contains(w.Body.String(), "¥2190") {
		t.Errorf("%s", w.Body)
	}
}
