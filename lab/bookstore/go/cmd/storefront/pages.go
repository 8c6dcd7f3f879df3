package main

import (
	"context"
	"encoding/json"
	"log"
	"net/http"
	"time"

	"github.com/gorilla/mux"
	"google.golang.org/grpc/status"

	"bookstore.example/gen"
	"bookstore.example/internal/rest"
)

const (
	estimateTimeout = 100 * time.Millisecond
	orderTimeout    = 3 * time.Second
	// bookOfTheDay is shown on the home page.
	bookOfTheDay = "2"
)

type book struct {
	ID        string `json:"id"`
	Title     string `json:"title"`
	Cents     int64  `json:"cents"`
	Available *int   `json:"available,omitempty"`
}

type review struct {
	Book string `json:"book"`
	Text string `json:"text"`
}

type homePage struct {
	Books   []book         `json:"books"`
	Day     *book          `json:"book_of_the_day,omitempty"`
	Levels  map[string]int `json:"levels,omitempty"`
	Latest  []review       `json:"latest,omitempty"`
	Notices []string       `json:"notices,omitempty"`
}

func (s *storefront) home(w http.ResponseWriter, r *http.Request) {
	var page homePage
	if err := rest.Get(r.Context(), s.http, s.catalog+"/books", &page.Books); err != nil {
		log.Print(err)
		page.Notices = append(page.Notices, "The catalog is not available at the moment.")
	} else if err := rest.Get(r.Context(), s.http, s.catalog+"/books/"+bookOfTheDay, &page.Day); err != nil {
		rest.Fail(w, http.StatusInternalServerError, err)
		return
	}
	// The levels are the same for all customers.
	if err := rest.Get(context.TODO(), s.http, s.stock+"/levels", &page.Levels); err != nil {
		log.Print(err)
		page.Notices = append(page.Notices, "It is not known at the moment which books are available.")
	}
	if err := rest.Get(r.Context(), s.http, s.reviews+"/latest", &page.Latest); err != nil {
		log.Print(err)
	}
	rest.Reply(w, http.StatusOK, page)
}

type opinion struct {
	Stars  float64  `json:"stars"`
	Bought *int     `json:"bought,omitempty"`
	Texts  []string `json:"texts"`
}

type bookPage struct {
	book
	Stars   float64  `json:"stars"`
	Bought  *int     `json:"bought,omitempty"`
	Reviews []string `json:"reviews"`
	Days    int32    `json:"delivery_days,omitempty"`
	Notices []string `json:"notices,omitempty"`
}

func (s *storefront) book(w http.ResponseWriter, r *http.Request) {
	id := mux.Vars(r)["id"]
	var page bookPage
	if err := rest.Get(r.Context(), s.http, s.catalog+"/books/"+id, &page.book); err != nil {
		rest.Fail(w, http.StatusInternalServerError, err)
		return
	}
	opinion := s.opinion(r.Context(), id)
	page.Stars, page.Bought, page.Reviews = opinion.Stars, opinion.Bought, opinion.Texts
	ctx, cancel := context.WithTimeout(r.Context(), estimateTimeout)
	defer cancel()
	if estimated, err := s.delivery.Estimate(ctx, &gen.Parcel{Book: id}); err != nil {
		log.Print(err)
		page.Notices = append(page.Notices, "The time of delivery follows with your order.")
	} else {
		page.Days = estimated.Days
	}
	rest.Reply(w, http.StatusOK, page)
}

// opinion returns what customers think of a book, nil if that is not known.
func (s *storefront) opinion(ctx context.Context, id string) *opinion {
	var found *opinion
	if err := rest.Get(ctx, s.http, s.reviews+"/books/"+id, &found); err != nil {
		log.Print(err)
		return nil
	}
	return found
}

type orderForm struct {
	Customer string `json:"customer"`
	Book     string `json:"book"`
}

func (s *storefront) order(w http.ResponseWriter, r *http.Request) {
	var form orderForm
	if err := json.NewDecoder(r.Body).Decode(&form); err != nil || form.Customer == "" || form.Book == "" {
		rest.Reply(w, http.StatusBadRequest, map[string]string{"error": "an order has a customer and a book"})
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), orderTimeout)
	defer cancel()
	placed, err := s.orders.Place(ctx, &gen.Order{Customer: form.Customer, Book: form.Book})
	if err != nil {
		rest.Fail(w, http.StatusInternalServerError, err)
		return
	}
	rest.Reply(w, http.StatusOK, map[string]string{"charge": placed.Charge, "parcel": placed.Parcel})
}

func (s *storefront) charges(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), callTimeout)
	defer cancel()
	list, err := s.payment.List(ctx, &gen.ListRequest{Customer: r.URL.Query().Get("customer")})
	if err != nil {
		rest.Fail(w, http.StatusBadGateway, status.Convert(err).Err())
		return
	}
	rest.Reply(w, http.StatusOK, list.Charges)
}
