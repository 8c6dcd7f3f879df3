package frontend

import (
	"context"
	"net/http"
	"strconv"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"shop.example/bugs"
	"shop.example/gen"
)

// cartPage shows the cart and the form that buys it.
type cartPage struct {
	frame
	Lines           []cartLine `json:"lines"`
	Shipping        *price     `json:"shipping,omitempty"` // nil: unknown
	Total           *price     `json:"total,omitempty"`    // nil: unknown
	Recommendations []card     `json:"recommendations,omitempty"`
}

func (*cartPage) template() string { return "cart" }

// cartLine is a number of pieces of one product. Its price is that of all
// pieces; nil: unknown.
type cartLine struct {
	ProductID string `json:"product_id"`
	Name      string `json:"name,omitempty"`
	Quantity  int32  `json:"quantity"`
	Price     *price `json:"price,omitempty"`
}

func (s *Server) cart(r *http.Request, v visitor) (any, error) {
	contents, err := s.Cart.GetCart(r.Context(), &gen.UserRequest{User: v.user})
	if err != nil {
		return nil, essential("your cart", err)
	}
	return s.showCart(r.Context(), v, contents)
}

func (s *Server) showCart(ctx context.Context, v visitor, contents *gen.CartContents) (any, error) {
	size := pieces(contents)
	page := &cartPage{frame: frame{Title: "Your cart", CartSize: &size}, Lines: []cartLine{}}
	if err := s.chooseCurrency(ctx, &page.frame, v, bugs.CartCurrencies); err != nil {
		return nil, err
	}
	if size == 0 {
		return page, nil
	}
	bill, err := s.bill(ctx, page, contents)
	if err != nil {
		return nil, err
	}
	if err := s.convertBill(ctx, page, bill); err != nil {
		return nil, err
	}
	page.show(bill)

	var ids []string
	for _, item := range contents.Items {
		ids = append(ids, item.ProductId)
	}
	page.Recommendations, err = s.recommend(ctx, ids, bugs.CartRecommendations)
	if err != nil {
		return nil, err
	}
	return page, nil
}

// bill returns the amounts of a cart: the price of one piece for each line, then
// shipping. An unknown amount is nil.
func (s *Server) bill(ctx context.Context, page *cartPage, contents *gen.CartContents) ([]*gen.Money, error) {
	var bill []*gen.Money
	for _, item := range contents.Items {
		product, err := s.Catalogue.GetProduct(ctx, &gen.ProductRequest{Id: item.ProductId})
		if err != nil {
			if !s.tolerate(bugs.CartProducts, err) {
				return nil, err
			}
			page.notice("Some products cannot be shown at the moment.")
		}
		page.Lines = append(page.Lines, cartLine{ProductID: item.ProductId, Name: product.GetName(), Quantity: item.Quantity})
		bill = append(bill, product.GetPrice())
	}
	quote, err := s.Shipping.GetQuote(ctx, &gen.QuoteRequest{Items: contents.Items})
	if err != nil {
		if !s.tolerate(bugs.CartQuote, err) {
			return nil, err
		}
		page.notice("Shipping costs are not known at the moment.")
	}
	return append(bill, quote), nil
}

// convertBill converts all amounts to the page's currency, or none: if one
// conversion fails, the page uses the currency of the catalogue.
func (s *Server) convertBill(ctx context.Context, page *cartPage, bill []*gen.Money) error {
	if !page.converts {
		return nil
	}
	converted := make([]*gen.Money, len(bill))
	for i, amount := range bill {
		if amount == nil {
			continue
		}
		var err error
		if converted[i], err = s.convert(ctx, amount, page.Currency); err != nil {
			if !s.tolerate(bugs.CartConvert, err) {
				return err
			}
			page.Currency = catalogueCurrency
			page.notice("Prices are in US dollars at the moment.")
			return nil
		}
	}
	copy(bill, converted)
	return nil
}

// show sets the prices of the lines, shipping and, if all amounts are known,
// the total.
func (page *cartPage) show(bill []*gen.Money) {
	total, complete := &gen.Money{Currency: page.Currency}, true
	for i, amount := range bill {
		if amount == nil {
			complete = false
			continue
		}
		if i == len(page.Lines) {
			page.Shipping = priceFrom(amount)
			total.Hundredths += amount.Hundredths
			continue
		}
		line := &gen.Money{Currency: amount.Currency, Hundredths: amount.Hundredths * int64(page.Lines[i].Quantity)}
		page.Lines[i].Price = priceFrom(line)
		total.Hundredths += line.Hundredths
	}
	if complete {
		page.Total = priceFrom(total)
	}
}

// changed is the JSON reply to a change of the cart.
type changed struct {
	CartSize int `json:"cart_size"`
}

// addToCart reads product_id and quantity (default 1) from a form or a JSON
// object.
func (s *Server) addToCart(r *http.Request, v visitor) (any, error) {
	form, err := fields(r)
	if err != nil {
		return nil, err
	}
	quantity := 1
	if text := form("quantity"); text != "" {
		if quantity, err = strconv.Atoi(text); err != nil || quantity < 1 || quantity > 99 {
			return nil, &statusError{status: http.StatusUnprocessableEntity, text: "A quantity is a number from 1 to 99."}
		}
	}
	ctx, id := r.Context(), form("product_id")
	if _, err := s.Catalogue.GetProduct(ctx, &gen.ProductRequest{Id: id}); err != nil {
		if status.Code(err) == codes.NotFound {
			return nil, &statusError{status: http.StatusUnprocessableEntity, text: "There is no such product."}
		}
		return nil, essential("the catalogue", err)
	}
	contents, err := s.Cart.AddItem(ctx, &gen.AddItemRequest{User: v.user,
		Item: &gen.CartItem{ProductId: id, Quantity: int32(quantity)}})
	if err != nil {
		return nil, essential("your cart", err)
	}
	return redirect{to: "/cart", value: changed{CartSize: pieces(contents)}}, nil
}

func (s *Server) emptyCart(r *http.Request, v visitor) (any, error) {
	if _, err := s.Cart.EmptyCart(r.Context(), &gen.UserRequest{User: v.user}); err != nil {
		return nil, essential("your cart", err)
	}
	return redirect{to: "/cart", value: changed{}}, nil
}
