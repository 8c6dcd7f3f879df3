// The sixteen subsets again, with real servers that are stopped.
package frontend_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"

	"shop.example/bugs"
	"shop.example/catalogue"
	"shop.example/frontend"
	"shop.example/gen"
	"shop.example/internal/testshop"
	"shop.example/internal/testshop/ads"
	"shop.example/internal/testshop/currency"
	"shop.example/service"
)

// listening is a service with its own port that can be stopped and started.
type listening struct {
	address  string
	register func(grpc.ServiceRegistrar)
	server   *grpc.Server
}

func (l *listening) start(t *testing.T) {
	listener, err := net.Listen("tcp", l.address)
	if err != nil {
		t.Fatal(err)
	}
	l.address = listener.Addr().String()
	l.server = grpc.NewServer()
	l.register(l.server)
	go l.server.Serve(listener)
	t.Cleanup(l.server.Stop)
}

func TestStoppedServersFailFourOfSixteenSubsets(t *testing.T) {
	for shopBugs, want := range map[string]int{"paper": 4, "0": 0} {
		t.Run("SHOP_BUGS="+shopBugs, func(t *testing.T) {
			services := map[string]*listening{
				"ADS":       {register: func(s grpc.ServiceRegistrar) { gen.RegisterAdsServer(s, ads.New()) }},
				"CART":      {register: func(s grpc.ServiceRegistrar) { gen.RegisterCartServer(s, &testshop.Cart{}) }},
				"CATALOGUE": {register: func(s grpc.ServiceRegistrar) { gen.RegisterCatalogueServer(s, catalogue.New()) }},
				"CURRENCY":  {register: func(s grpc.ServiceRegistrar) { gen.RegisterCurrencyServer(s, currency.New()) }},
			}
			names := []string{"ADS", "CART", "CATALOGUE", "CURRENCY"}
			for _, name := range names {
				services[name].address = "127.0.0.1:0"
				services[name].start(t)
			}
			page := homeOf(t, services, shopBugs)
			good := page()

			var failed []string
			for bits := range 16 {
				var down []string
				for i, name := range names {
					if bits>>i&1 == 1 {
						down = append(down, name)
						services[name].server.Stop()
					}
				}
				if page().Code >= 500 {
					failed = append(failed, fmt.Sprint(down))
				}
				for _, name := range down {
					services[name].start(t)
				}
				within(t, time.Second, func() bool { return slices.Equal(page().Body.Bytes(), good.Body.Bytes()) })
			}
			if len(failed) != want {
				t.Errorf("%d subsets failed: %v", len(failed), failed)
			}
		})
	}
}

// homeOf returns a function that requests the home page of a frontend.
func homeOf(t *testing.T, services map[string]*listening, shopBugs string) func() *httptest.ResponseRecorder {
	for name, l := range services {
		t.Setenv(name+"_ADDR", l.address)
	}
	for _, name := range []string{"RECOMMENDATION", "SHIPPING", "PAYMENT", "CHECKOUT"} {
		t.Setenv(name+"_ADDR", "127.0.0.1:1")
	}
	missing, err := bugs.Parse(shopBugs)
	if err != nil {
		t.Fatal(err)
	}
	clients, err := frontend.Connect(service.Dial)
	if err != nil {
		t.Fatal(err)
	}
	handler := frontend.New(clients, missing).Handler()
	return func() *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/home", nil))
		return w
	}
}

// within waits until done returns true, and fails the test after limit.
func within(t *testing.T, limit time.Duration, done func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v", limit)
		}
	}
}
