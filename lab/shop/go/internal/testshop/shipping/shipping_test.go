package shipping

import (
	"context"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"shop.example/gen"
)

var items = []*gen.CartItem{{ProductId: "mug-01", Quantity: 2}, {ProductId: "kite-09", Quantity: 1}}

func TestQuoteCountsPieces(t *testing.T) {
	for _, test := range []struct {
		items []*gen.CartItem
		want  int64
	}{{nil, 0}, {items[1:], 610}, {items, 850}} {
		quote, err := New().GetQuote(context.Background(), &gen.QuoteRequest{Items: test.items})
		if err != nil || quote.Hundredths != test.want || quote.Currency != "USD" {
			t.Errorf("%v: %v, %v", test.items, quote, err)
		}
	}
}

func TestEveryShipmentIsListed(t *testing.T) {
	server, ctx := New(), context.Background()
	for _, user := range []string{"ann", "bob", "ann"} {
		if _, err := server.Ship(ctx, &gen.ShipRequest{OrderId: "order-1", User: user, Address: "Quay 1", Items: items}); err != nil {
			t.Fatal(err)
		}
	}
	for _, request := range []*gen.ShipRequest{{Address: "Quay 1"}, {Items: items}} {
		if _, err := server.Ship(ctx, request); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%v: %v", request, err)
		}
	}
	list, err := server.ListShipments(ctx, &gen.UserRequest{User: "ann"})
	if err != nil || len(list.Shipments) != 2 || list.Shipments[0].TrackingId != list.Shipments[1].TrackingId {
		t.Errorf("%v, %v", list, err)
	}
}
