package currency

import (
	"context"
	"math"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"shop.example/gen"
)

func TestConvert(t *testing.T) {
	server := New()
	for _, test := range []struct {
		from string
		to   string
		in   int64
		want int64 // -1: INVALID_ARGUMENT
	}{
		{"USD", "USD", 1234, 1234},
		{"USD", "EUR", 1450, 1334},
		{"USD", "JPY", 1450, 218950},
		{"EUR", "USD", 92, 100},
		{"EUR", "USD", 1, 1}, // 1.087
		{"JPY", "USD", 75, 0},
		{"JPY", "USD", 76, 1}, // 0.503
		{"USD", "EUR", 0, 0},
		{"USD", "EUR", math.MaxInt64, 8485502273906393742},
		{"USD", "JPY", math.MaxInt64, -1},
		{"USD", "EUR", -1, -1},
		{"USD", "SEK", 1, -1},
		{"", "EUR", 1, -1},
	} {
		got, err := server.Convert(context.Background(), &gen.ConvertRequest{
			From: &gen.Money{Currency: test.from, Hundredths: test.in}, To: test.to})
		if test.want < 0 {
			if status.Code(err) != codes.InvalidArgument {
				t.Errorf("%+v: %v, %v", test, got, err)
			}
		} else if err != nil || got.Hundredths != test.want || got.Currency != test.to {
			t.Errorf("%+v: %v, %v", test, got, err)
		}
	}
}

func TestCurrenciesAreSorted(t *testing.T) {
	list, err := New().GetCurrencies(context.Background(), &gen.Empty{})
	if err != nil || len(list.Codes) != len(unitsPerMillionUSD) || !slices.IsSorted(list.Codes) {
		t.Errorf("%v, %v", list, err)
	}
}
