// Package shipping stands in for the shipping service, which is written in Java.
// It prices and sends parcels and keeps the last thousand in memory.
package shipping

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"shop.example/gen"
)

const (
	parcelHundredths = 490 // USD for any parcel
	pieceHundredths  = 120 // USD for each piece in it
	maxShipments     = 1000
)

// Server implements the Shipping service.
type Server struct {
	gen.UnimplementedShippingServer
	mu        sync.Mutex
	shipments []*gen.Shipment
}

// New returns a server ready to be registered.
func New() *Server { return &Server{} }

// GetQuote returns the price in USD of sending items.
func (s *Server) GetQuote(_ context.Context, request *gen.QuoteRequest) (*gen.Money, error) {
	price := &gen.Money{Currency: "USD"}
	for _, item := range request.GetItems() {
		price.Hundredths += pieceHundredths * int64(item.GetQuantity())
	}
	if len(request.GetItems()) > 0 {
		price.Hundredths += parcelHundredths
	}
	return price, nil
}

// Ship sends a parcel, whose tracking id is derived from the order's id. A
// second call sends a second parcel. INVALID_ARGUMENT: no address or no items.
func (s *Server) Ship(_ context.Context, request *gen.ShipRequest) (*gen.Shipment, error) {
	if request.GetAddress() == "" || len(request.GetItems()) == 0 {
		return nil, status.Error(codes.InvalidArgument, "a parcel needs an address and contents")
	}
	sum := sha256.Sum256([]byte(request.GetOrderId()))
	shipment := &gen.Shipment{
		TrackingId: "parcel-" + hex.EncodeToString(sum[:4]),
		OrderId:    request.GetOrderId(),
		User:       request.GetUser(),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shipments = append(s.shipments, shipment)
	if len(s.shipments) > maxShipments {
		s.shipments = s.shipments[1:]
	}
	return shipment, nil
}

// ListShipments returns the shipments to a user, oldest first.
func (s *Server) ListShipments(_ context.Context, request *gen.UserRequest) (*gen.ShipmentList, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := &gen.ShipmentList{}
	for _, shipment := range s.shipments {
		if shipment.User == request.GetUser() {
			list.Shipments = append(list.Shipments, shipment)
		}
	}
	return list, nil
}
