package frontend

import (
	"strconv"

	"shop.example/gen"
)

// price is an amount and how it is written.
type price struct {
	Currency   string `json:"currency"`
	Hundredths int64  `json:"hundredths"`
	Text       string `json:"text"`
}

var symbols = map[string]string{"AUD": "A$", "EUR": "€", "GBP": "£", "JPY": "¥", "USD": "$"}

func priceFrom(amount *gen.Money) *price {
	return &price{Currency: amount.GetCurrency(), Hundredths: amount.GetHundredths(), Text: written(amount)}
}

// written returns an amount as in "€12.50" or "CHF 12.50"; yen are rounded to
// whole ones.
func written(amount *gen.Money) string {
	text := make([]byte, 0, 16)
	if symbol := symbols[amount.GetCurrency()]; symbol != "" {
		text = append(text, symbol...)
	} else {
		text = append(append(text, amount.GetCurrency()...), ' ')
	}
	hundredths := amount.GetHundredths()
	if amount.GetCurrency() == "JPY" {
		return string(strconv.AppendInt(text, (hundredths+50)/100, 10))
	}
	text = strconv.AppendInt(text, hundredths/100, 10)
	return string(append(text, '.', byte('0'+hundredths/10%10), byte('0'+hundredths%10)))
}
