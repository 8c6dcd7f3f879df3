// Package checkout is the checkout service. It turns a cart into an order by
// calling six other services, one after the other:
//
//	cart → catalogue, currency (each line) → shipping quote → currency
//	     → charge → ship → e-mail → empty the cart
//
// Before the charge nothing has changed, and any failure ends the order. A
// failed shipment also ends it, and the charge remains: there is no refund and
// no retry. E-mail and emptying the cart come after the order is complete, so
// their failure only sets fields of the order.
package checkout

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"shop.example/bugs"
	"shop.example/gen"
	"shop.example/problems"
)

// Clients are the clients of the services that checkout calls.
type Clients struct {
	Cart      gen.CartClient
	Catalogue gen.CatalogueClient
	Currency  gen.CurrencyClient
	Shipping  gen.ShippingClient
	Payment   gen.PaymentClient
	Email     gen.EmailClient
}

// Connect creates all clients. It calls dial with names such as "CART_ADDR".
func Connect[C grpc.ClientConnInterface](dial func(key string) (C, error)) (*Clients, error) {
	conns := map[string]C{}
	for _, name := range []string{"CART", "CATALOGUE", "CURRENCY", "SHIPPING", "PAYMENT", "EMAIL"} {
		conn, err := dial(name + "_ADDR")
		if err != nil {
			return nil, err
		}
		conns[name] = conn
	}
	return &Clients{
		Cart:      gen.NewCartClient(conns["CART"]),
		Catalogue: gen.NewCatalogueClient(conns["CATALOGUE"]),
		Currency:  gen.NewCurrencyClient(conns["CURRENCY"]),
		Shipping:  gen.NewShippingClient(conns["SHIPPING"]),
		Payment:   gen.NewPaymentClient(conns["PAYMENT"]),
		Email:     gen.NewEmailClient(conns["EMAIL"]),
	}, nil
}

// Server implements the Checkout service.
type Server struct {
	gen.UnimplementedCheckoutServer
	*Clients
	bugs     bugs.Set
	problems problems.Log
}

// New returns a server ready to be registered.
func New(clients *Clients, missing bugs.Set) *Server {
	return &Server{Clients: clients, bugs: missing}
}

// PlaceOrder buys the contents of the user's cart. FAILED_PRECONDITION: the cart is
// empty or the card declined. INVALID_ARGUMENT: no e-mail or postal address,
// or an unknown currency. Any other code is that of the call that failed.
func (s *Server) PlaceOrder(ctx context.Context, request *gen.OrderRequest) (*gen.Order, error) {
	if request.GetEmail() == "" || request.GetAddress() == "" {
		return nil, status.Error(codes.InvalidArgument, "an order needs an e-mail and a postal address")
	}
	user := &gen.UserRequest{User: request.GetUser()}
	contents, err := s.Cart.GetCart(ctx, user)
	if err != nil {
		return nil, failed("reading the cart", err)
	}
	if len(contents.GetItems()) == 0 {
		return nil, status.Error(codes.FailedPrecondition, "the cart is empty")
	}
	order, err := s.price(ctx, contents, request)
	if err != nil {
		return nil, err
	}

	if _, err := s.Payment.Charge(ctx, &gen.ChargeRequest{OrderId: order.Id, User: request.User,
		Card: request.Card, Amount: order.Total}); err != nil {
		return nil, failed("charging the card", err)
	}
	shipment, err := s.Shipping.Ship(ctx, &gen.ShipRequest{OrderId: order.Id, User: request.User,
		Address: request.Address, Items: contents.Items})
	if err != nil {
		return nil, failed("shipping the parcel", err)
	}
	order.TrackingId = shipment.TrackingId

	_, err = s.Email.SendConfirmation(ctx, &gen.ConfirmationRequest{To: request.Email, Order: order})
	if err != nil && !s.tolerate(bugs.CheckoutEmail, err) {
		return nil, err
	}
	order.EmailSent = err == nil

	_, err = s.Cart.EmptyCart(ctx, user)
	if err != nil && !s.tolerate(bugs.CheckoutEmpty, err) {
		return nil, err
	}
	order.CartEmptied = err == nil
	return order, nil
}

// price returns the order with its lines, shipping costs, total and id. It has
// no effects on other services.
func (s *Server) price(ctx context.Context, contents *gen.CartContents, request *gen.OrderRequest) (*gen.Order, error) {
	order := &gen.Order{Total: &gen.Money{Currency: request.Currency}}
	for _, item := range contents.Items {
		product, err := s.Catalogue.GetProduct(ctx, &gen.ProductRequest{Id: item.ProductId})
		if err != nil {
			return nil, failed("looking up "+item.ProductId, err)
		}
		price, err := s.Currency.Convert(ctx, &gen.ConvertRequest{From: product.Price, To: request.Currency})
		if err != nil {
			return nil, failed("converting the price of "+item.ProductId, err)
		}
		price.Hundredths *= int64(item.Quantity)
		order.Lines = append(order.Lines, &gen.OrderLine{ProductId: item.ProductId, Name: product.Name,
			Quantity: item.Quantity, Price: price})
		order.Total.Hundredths += price.Hundredths
	}
	quote, err := s.Shipping.GetQuote(ctx, &gen.QuoteRequest{Items: contents.Items})
	if err != nil {
		return nil, failed("asking for shipping costs", err)
	}
	order.Shipping, err = s.Currency.Convert(ctx, &gen.ConvertRequest{From: quote, To: request.Currency})
	if err != nil {
		return nil, failed("converting shipping costs", err)
	}
	order.Total.Hundredths += order.Shipping.Hundredths
	order.Id = orderID(request, contents)
	return order, nil
}

// orderID only depends on the user, the items and the addresses, so that the
// same request in the same state gives the same page.
func orderID(request *gen.OrderRequest, contents *gen.CartContents) string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q %q", request.User, request.Email, request.Address, request.Currency)
	for _, item := range contents.Items {
		fmt.Fprintf(h, " %q %d", item.ProductId, item.Quantity)
	}
	return "order-" + hex.EncodeToString(h.Sum(nil)[:5])
}

// tolerate reports whether the failure of the call at site is handled, and logs
// it if so.
func (s *Server) tolerate(site bugs.Site, err error) bool {
	if s.bugs.Missing(site) {
		return false
	}
	s.problems.Add(string(site), err)
	return true
}

// failed adds the step to the message of an error and keeps its code.
func failed(step string, err error) error {
	st := status.Convert(err)
	return status.Errorf(st.Code(), "%s: %s", step, st.Message())
}
