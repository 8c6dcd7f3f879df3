package frontend

import (
	"encoding/json"
	"mime"
	"net/http"
	"strings"

	"shop.example/gen"
)

// orderPage confirms an order.
type orderPage struct {
	frame
	ID          string      `json:"id"`
	Lines       []orderLine `json:"lines"`
	Shipping    *price      `json:"shipping"`
	Total       *price      `json:"total"`
	TrackingID  string      `json:"tracking_id"`
	EmailSent   bool        `json:"email_sent"`
	CartEmptied bool        `json:"cart_emptied"`
}

func (*orderPage) template() string { return "order" }

type orderLine struct {
	ProductID string `json:"product_id"`
	Name      string `json:"name"`
	Quantity  int32  `json:"quantity"`
	Price     *price `json:"price"`
}

// checkout places an order for the cart, with one call to the checkout service.
// email, address and card come from a form or a JSON object.
func (s *Server) checkout(r *http.Request, v visitor) (any, error) {
	form, err := fields(r)
	if err != nil {
		return nil, err
	}
	order, err := s.Checkout.PlaceOrder(r.Context(), &gen.OrderRequest{User: v.user, Currency: v.currency,
		Email: form("email"), Address: form("address"), Card: form("card")})
	if err != nil {
		return nil, essential("our checkout", err)
	}
	page := &orderPage{
		frame:       frame{Title: "Thank you", Currency: order.GetTotal().GetCurrency()},
		ID:          order.Id,
		Shipping:    priceFrom(order.Shipping),
		Total:       priceFrom(order.Total),
		TrackingID:  order.TrackingId,
		EmailSent:   order.EmailSent,
		CartEmptied: order.CartEmptied,
	}
	for _, line := range order.Lines {
		page.Lines = append(page.Lines, orderLine{ProductID: line.ProductId, Name: line.Name,
			Quantity: line.Quantity, Price: priceFrom(line.Price)})
	}
	if !order.EmailSent {
		page.notice("Your confirmation could not be sent; please note the number of your order.")
	}
	if !order.CartEmptied {
		page.notice("Your cart still shows what you just bought.")
	}
	return page, nil
}

// ordersPage lists the customer's charges and shipments.
type ordersPage struct {
	frame
	Charges   []charge   `json:"charges"`
	Shipments []shipment `json:"shipments"`
}

func (*ordersPage) template() string { return "orders" }

type charge struct {
	ID      string `json:"id"`
	OrderID string `json:"order_id"`
	Amount  *price `json:"amount"`
}

type shipment struct {
	TrackingID string `json:"tracking_id"`
	OrderID    string `json:"order_id"`
}

func (s *Server) orders(r *http.Request, v visitor) (any, error) {
	page := &ordersPage{frame: frame{Title: "Your orders"}, Charges: []charge{}, Shipments: []shipment{}}
	user := &gen.UserRequest{User: v.user}
	charges, err := s.Payment.ListCharges(r.Context(), user)
	if err != nil {
		return nil, essential("our bookkeeping", err)
	}
	for _, c := range charges.Charges {
		page.Charges = append(page.Charges, charge{ID: c.Id, OrderID: c.OrderId, Amount: priceFrom(c.Amount)})
	}
	shipments, err := s.Shipping.ListShipments(r.Context(), user)
	if err != nil {
		return nil, essential("our mail room", err)
	}
	for _, sh := range shipments.Shipments {
		page.Shipments = append(page.Shipments, shipment{TrackingID: sh.TrackingId, OrderID: sh.OrderId})
	}
	return page, nil
}

// fields returns a function that looks up the fields of a posted form, or the
// strings and numbers of a posted JSON object.
func fields(r *http.Request) (func(string) string, error) {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if kind != "application/json" {
		if err := r.ParseForm(); err != nil {
			return nil, &statusError{status: http.StatusBadRequest, text: "This form cannot be read."}
		}
		return r.PostForm.Get, nil
	}
	var object map[string]json.RawMessage
	if err := json.NewDecoder(r.Body).Decode(&object); err != nil {
		return nil, &statusError{status: http.StatusBadRequest, text: "This JSON object cannot be read."}
	}
	return func(name string) string {
		var text string
		if json.Unmarshal(object[name], &text) == nil {
			return text
		}
		return strings.TrimSpace(string(object[name]))
	}, nil
}
