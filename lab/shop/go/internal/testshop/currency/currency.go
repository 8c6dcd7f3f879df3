// Package currency stands in for the currency service, which runs on Node.js: the
// currencies that the shop accepts, and conversions between them. Rates are fixed
// and amounts are whole hundredths, so equal requests get equal replies.
package currency

import (
	"context"
	"math/bits"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"shop.example/gen"
)

// unitsPerMillionUSD is how many units of each currency a million USD are worth.
var unitsPerMillionUSD = map[string]uint64{
	"AUD": 1_530_000,
	"CHF": 880_000,
	"CZK": 22_900_000,
	"EUR": 920_000,
	"GBP": 790_000,
	"JPY": 151_000_000,
	"NOK": 10_700_000,
	"USD": 1_000_000,
}

// Server implements the Currency service.
type Server struct {
	gen.UnimplementedCurrencyServer
	list *gen.CurrencyList
}

// New returns a server ready to be registered.
func New() *Server {
	list := &gen.CurrencyList{}
	for code := range unitsPerMillionUSD {
		list.Codes = append(list.Codes, code)
	}
	slices.Sort(list.Codes)
	return &Server{list: list}
}

// GetCurrencies lists the accepted currencies in alphabetical order.
func (s *Server) GetCurrencies(context.Context, *gen.Empty) (*gen.CurrencyList, error) {
	return s.list, nil
}

// Convert returns the same value in another currency, rounded half up.
// INVALID_ARGUMENT: an unknown currency, a negative amount, or an overflow.
func (s *Server) Convert(_ context.Context, request *gen.ConvertRequest) (*gen.Money, error) {
	from := unitsPerMillionUSD[request.GetFrom().GetCurrency()]
	to := unitsPerMillionUSD[request.GetTo()]
	if from == 0 || to == 0 {
		return nil, status.Errorf(codes.InvalidArgument, "no rate from %q to %q",
			request.GetFrom().GetCurrency(), request.GetTo())
	}
	amount, ok := scale(request.GetFrom().GetHundredths(), to, from)
	if !ok {
		return nil, status.Errorf(codes.InvalidArgument, "amount %d out of range",
			request.GetFrom().GetHundredths())
	}
	return &gen.Money{Currency: request.GetTo(), Hundredths: amount}, nil
}

// scale returns amount*times/by, rounded half up; false if amount is negative
// or the result does not fit.
func scale(amount int64, times, by uint64) (int64, bool) {
	if amount < 0 {
		return 0, false
	}
	high, low := bits.Mul64(uint64(amount), times)
	low, carry := bits.Add64(low, by/2, 0)
	high += carry
	if high >= by {
		return 0, false
	}
	quotient, _ := bits.Div64(high, low, by)
	return int64(quotient), quotient <= 1<<63-1
}
