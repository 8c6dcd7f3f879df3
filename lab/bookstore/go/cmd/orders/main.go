// Command orders places orders over gRPC. See ../../../README.md.
package main

import (
	"context"
	"log"
	"net"
	"net/http"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"bookstore.example/gen"
	"bookstore.example/internal/rest"
)

const (
	// callTimeout bounds a call to the catalog and to the stock.
	callTimeout = 2 * time.Second
	// stepTimeout bounds each step of an order that changes something.
	stepTimeout = time.Second
)

type orders struct {
	gen.UnimplementedOrdersServer
	http                 *http.Client
	mailer               *http.Client
	catalog, stock, mail string
	payment              gen.PaymentClient
	delivery             gen.DeliveryClient
}

func (o *orders) Place(ctx context.Context, order *gen.Order) (*gen.Placed, error) {
	var book struct {
		Title string `json:"title"`
		Cents int64  `json:"cents"`
	}
	if err := rest.Get(ctx, o.http, o.catalog+"/books/"+order.Book, &book); err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	var level struct {
		Available int `json:"available"`
	}
	if err := rest.Get(ctx, o.http, o.stock+"/levels/"+order.Book, &level); err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	if level.Available == 0 {
		return nil, status.Error(codes.FailedPrecondition, "the book is sold out")
	}
	charged, err := o.charge(ctx, &gen.ChargeRequest{Customer: order.Customer, Cents: book.Cents})
	if err != nil {
		return nil, err
	}
	parcel, err := o.schedule(ctx, &gen.Parcel{Customer: order.Customer, Book: order.Book})
	if err != nil {
		return nil, err
	}
	// A customer who leaves gets the message too.
	message := map[string]string{"to": order.Customer, "text": "You have ordered " + book.Title + "."}
	if err := rest.Post(context.TODO(), o.mailer, o.mail+"/messages", message); err != nil {
		log.Print(err)
	}
	return &gen.Placed{Charge: charged.Id, Parcel: parcel.Id}, nil
}

func (o *orders) charge(ctx context.Context, request *gen.ChargeRequest) (*gen.Charged, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	return o.payment.Charge(ctx, request)
}

func (o *orders) schedule(ctx context.Context, parcel *gen.Parcel) (*gen.Scheduled, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	return o.delivery.Schedule(ctx, parcel)
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
	log.SetPrefix("orders: ")
	o := &orders{
		http:     &http.Client{Timeout: callTimeout},
		mailer:   &http.Client{},
		catalog:  rest.Required("CATALOG_URL"),
		stock:    rest.Required("STOCK_URL"),
		mail:     rest.Required("MAIL_URL"),
		payment:  gen.NewPaymentClient(dial(rest.Required("PAYMENT_ADDR"))),
		delivery: gen.NewDeliveryClient(dial(rest.Required("DELIVERY_ADDR"))),
	}
	listener, err := net.Listen("tcp", rest.Address())
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer(grpc.StatsHandler(otelgrpc.NewServerHandler()))
	gen.RegisterOrdersServer(server, o)
	log.Fatal(server.Serve(listener))
}
