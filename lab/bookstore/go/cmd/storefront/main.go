// Command storefront assembles the pages of the bookstore. See ../../../README.md.
package main

import (
	"log"
	"net/http"
	"time"

	"github.com/gorilla/mux"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"bookstore.example/gen"
	"bookstore.example/internal/rest"
)

// callTimeout bounds a call to a service over HTTP.
const callTimeout = 2 * time.Second

type storefront struct {
	http                    *http.Client
	catalog, stock, reviews string
	orders                  gen.OrdersClient
	payment                 gen.PaymentClient
	delivery                gen.DeliveryClient
}

func dial(address string) *grpc.ClientConn {
	connection, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithStatsHandler(otelgrpc.NewClientHandler()))
	if err != nil {
		log.Fatal(err)
	}
	return connection
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("storefront: ")
	s := &storefront{
		http:     &http.Client{Timeout: callTimeout},
		catalog:  rest.Required("CATALOG_URL"),
		stock:    rest.Required("STOCK_URL"),
		reviews:  rest.Required("REVIEWS_URL"),
		orders:   gen.NewOrdersClient(dial(rest.Required("ORDERS_ADDR"))),
		payment:  gen.NewPaymentClient(dial(rest.Required("PAYMENT_ADDR"))),
		delivery: gen.NewDeliveryClient(dial(rest.Required("DELIVERY_ADDR"))),
	}
	router := mux.NewRouter()
	router.HandleFunc("/", s.home).Methods("GET")
	router.HandleFunc("/books/{id}", s.book).Methods("GET")
	router.HandleFunc("/orders", s.order).Methods("POST")
	router.HandleFunc("/charges", s.charges).Methods("GET")
	router.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {}).Methods("GET")
	server := &http.Server{Addr: rest.Address(), Handler: router, ReadHeaderTimeout: 5 * time.Second}
	log.Fatal(server.ListenAndServe())
}
