package frontend

import (
	"strconv"

	"shop.example/gen"
)

// price is an amount with its formatted text.
type price struct {
	Currency   string `json:"currency"`
	Hundredths int64  `json:"hundredths"`
	Text       string `json:"text"`
}

var symbols = map[string]string{"AUD": "A$", "EUR": "€", "GBP": "£", "JPY": "¥", "USD": "$"}

func priceFrom(amount *gen.Money) *price {
	return &price{Currency: amount.GetCurrency(), Hundredths: amount.GetHundredths(), Text: format(amount)}
}

// format formats an amount, such as "€12.50" or "CHF 12.50". Yen are rounded to
// whole numbers.
func format(amount *gen.Money) string {
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
