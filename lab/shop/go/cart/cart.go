// Package cart is the cart service. Carts are stored in memcached, so they
// survive a restart of this service, and expire 48 hours after the last change.
// While memcached is down, every call fails with UNAVAILABLE.
package cart

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"shop.example/gen"
	"shop.example/problems"
)

const (
	maxQuantity = 99 // pieces of one product
	maxLines    = 50 // different products
)

// Server implements the Cart service.
type Server struct {
	gen.UnimplementedCartServer
	store    *store
	problems problems.Log
}

// New returns a server that stores carts in the memcached at address. It
// connects at the first call.
func New(address string) *Server {
	return &Server{store: newStore(address)}
}

// GetCart returns the cart of a user, empty if there is none.
func (s *Server) GetCart(_ context.Context, request *gen.UserRequest) (*gen.CartContents, error) {
	if err := checkName("user", request.GetUser()); err != nil {
		return nil, err
	}
	contents, err := s.store.get(request.GetUser())
	return contents, s.status(err)
}

// AddItem puts some pieces of a product into the cart of a user and returns
// the new cart. INVALID_ARGUMENT: not between 1 and 99 pieces;
// RESOURCE_EXHAUSTED: the cart would exceed its limits.
func (s *Server) AddItem(_ context.Context, request *gen.AddItemRequest) (*gen.CartContents, error) {
	item := request.GetItem()
	if err := checkName("user", request.GetUser()); err != nil {
		return nil, err
	}
	if err := checkName("product", item.GetProductId()); err != nil {
		return nil, err
	}
	if item.GetQuantity() < 1 || item.GetQuantity() > maxQuantity {
		return nil, status.Errorf(codes.InvalidArgument, "quantity must be between 1 and %d", maxQuantity)
	}
	contents, err := s.store.change(request.GetUser(), func(contents *gen.CartContents) error {
		return add(contents, item)
	})
	return contents, s.status(err)
}

// EmptyCart deletes the cart of a user.
func (s *Server) EmptyCart(_ context.Context, request *gen.UserRequest) (*gen.Empty, error) {
	if err := checkName("user", request.GetUser()); err != nil {
		return nil, err
	}
	return &gen.Empty{}, s.status(s.store.empty(request.GetUser()))
}

func add(contents *gen.CartContents, item *gen.CartItem) error {
	for _, line := range contents.Items {
		if line.ProductId == item.ProductId {
			if line.Quantity+item.Quantity > maxQuantity {
				return status.Errorf(codes.ResourceExhausted, "at most %d pieces of %s", maxQuantity, item.ProductId)
			}
			line.Quantity += item.Quantity
			return nil
		}
	}
	if len(contents.Items) == maxLines {
		return status.Errorf(codes.ResourceExhausted, "at most %d different products", maxLines)
	}
	contents.Items = append(contents.Items, &gen.CartItem{ProductId: item.ProductId, Quantity: item.Quantity})
	return nil
}

// checkName accepts 1 to 64 letters, digits, dashes and underscores, which are
// valid in a memcached key.
func checkName(what, name string) error {
	valid := len(name) >= 1 && len(name) <= 64
	for i := 0; valid && i < len(name); i++ {
		c := name[i]
		valid = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
	}
	if !valid {
		return status.Errorf(codes.InvalidArgument, "%q is not a %s", name, what)
	}
	return nil
}

// status returns errors that have a gRPC status unchanged, and errors of
// memcached as UNAVAILABLE.
func (s *Server) status(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	if errors.Is(err, errBusy) {
		return status.Error(codes.Aborted, err.Error())
	}
	s.problems.Add("memcached", err)
	return status.Errorf(codes.Unavailable, "memcached: %v", err)
}
