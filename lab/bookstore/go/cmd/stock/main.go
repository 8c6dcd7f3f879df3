// Command stock knows how many copies of a book there are. See ../../../README.md.
package main

import (
	"log"
	"net/http"
	"time"

	"github.com/gorilla/mux"

	"bookstore.example/internal/rest"
)

type item struct {
	Available int `json:"available"`
	Sold      int `json:"sold"`
	Grams     int `json:"grams"`
}

var items = map[string]item{
	"1": {Available: 12, Sold: 340, Grams: 410},
	"2": {Available: 3, Sold: 88, Grams: 265},
	"3": {Available: 0, Sold: 1902, Grams: 720},
}

func levels(w http.ResponseWriter, _ *http.Request) {
	all := map[string]int{}
	for id, item := range items {
		all[id] = item.Available
	}
	rest.Reply(w, http.StatusOK, all)
}

func level(w http.ResponseWriter, r *http.Request) {
	found, ok := items[mux.Vars(r)["id"]]
	if !ok {
		rest.Reply(w, http.StatusNotFound, map[string]string{"error": "no such book"})
		return
	}
	rest.Reply(w, http.StatusOK, found)
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("stock: ")
	router := mux.NewRouter()
	router.HandleFunc("/levels", levels).Methods("GET")
	router.HandleFunc("/levels/{id}", level).Methods("GET")
	router.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {}).Methods("GET")
	server := &http.Server{Addr: rest.Address(), Handler: router, ReadHeaderTimeout: 5 * time.Second}
	log.Fatal(server.ListenAndServe())
}
