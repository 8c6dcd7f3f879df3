// Package catalogue is the product catalogue: ten fixed products in a fixed
// order, with prices in USD.
package catalogue

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"shop.example/gen"
)

// Server implements the Catalogue service.
type Server struct {
	gen.UnimplementedCatalogueServer
	list *gen.ProductList
	byID map[string]*gen.Product
}

// New returns a server ready to be registered.
func New() *Server {
	s := &Server{list: &gen.ProductList{Products: products()}, byID: map[string]*gen.Product{}}
	for _, product := range s.list.Products {
		s.byID[product.Id] = product
	}
	return s
}

// ListProducts returns all products in display order.
func (s *Server) ListProducts(context.Context, *gen.Empty) (*gen.ProductList, error) {
	return s.list, nil
}

// GetProduct returns one product. NOT_FOUND: no product has this id.
func (s *Server) GetProduct(_ context.Context, request *gen.ProductRequest) (*gen.Product, error) {
	product := s.byID[request.GetId()]
	if product == nil {
		return nil, status.Errorf(codes.NotFound, "no product %q", request.GetId())
	}
	return product, nil
}
