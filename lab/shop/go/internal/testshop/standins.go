package testshop

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"shop.example/gen"
)

// Cart stands in for the cart service and its memcached.
type Cart struct {
	gen.UnimplementedCartServer
	carts map[string]*gen.CartContents
}

func (c *Cart) put(user string, item *gen.CartItem) *gen.CartContents {
	if c.carts == nil {
		c.carts = map[string]*gen.CartContents{}
	}
	if c.carts[user] == nil {
		c.carts[user] = &gen.CartContents{}
	}
	c.carts[user].Items = append(c.carts[user].Items, item)
	return c.carts[user]
}

// GetCart returns a cart, empty for a new user.
func (c *Cart) GetCart(_ context.Context, request *gen.UserRequest) (*gen.CartContents, error) {
	if contents := c.carts[request.User]; contents != nil {
		return contents, nil
	}
	return &gen.CartContents{}, nil
}

// AddItem always adds a line.
func (c *Cart) AddItem(_ context.Context, request *gen.AddItemRequest) (*gen.CartContents, error) {
	return c.put(request.User, request.Item), nil
}

// EmptyCart deletes a cart.
func (c *Cart) EmptyCart(_ context.Context, request *gen.UserRequest) (*gen.Empty, error) {
	delete(c.carts, request.User)
	return &gen.Empty{}, nil
}

// Payment stands in for the payment service; it declines the card "stolen".
type Payment struct {
	gen.UnimplementedPaymentServer
	Receipts []*gen.Receipt
}

// Charge records a charge.
func (p *Payment) Charge(_ context.Context, request *gen.ChargeRequest) (*gen.Receipt, error) {
	if request.Card == "stolen" {
		return nil, status.Error(codes.FailedPrecondition, "card declined")
	}
	receipt := &gen.Receipt{Id: "charge-1", OrderId: request.OrderId, User: request.User, Amount: request.Amount}
	p.Receipts = append(p.Receipts, receipt)
	return receipt, nil
}

// ListCharges returns all charges of all users.
func (p *Payment) ListCharges(context.Context, *gen.UserRequest) (*gen.ChargeList, error) {
	return &gen.ChargeList{Charges: p.Receipts}, nil
}

// Email stands in for the e-mail service.
type Email struct {
	gen.UnimplementedEmailServer
	To []string
}

// SendConfirmation records the address.
func (e *Email) SendConfirmation(_ context.Context, request *gen.ConfirmationRequest) (*gen.Empty, error) {
	e.To = append(e.To, request.To)
	return &gen.Empty{}, nil
}

// Recommendation stands in for the recommendation service: it recommends the
// last product of the catalogue.
type Recommendation struct {
	gen.UnimplementedRecommendationServer
	catalogue gen.CatalogueClient
}

// ListRecommendations returns one product.
func (r *Recommendation) ListRecommendations(ctx context.Context, _ *gen.RecommendationRequest) (*gen.ProductList, error) {
	stock, err := r.catalogue.ListProducts(ctx, &gen.Empty{})
	if err != nil {
		return nil, err
	}
	return &gen.ProductList{Products: stock.Products[len(stock.Products)-1:]}, nil
}
