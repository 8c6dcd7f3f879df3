// Command sample is the application in the packages: a shop page, its catalog and its prices, one program with a role
// each. It has one weakness, on purpose: web asks for the rates first and shows the catalog's own prices without them,
// but does not expect that a conversion fails after that.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Addresses of the roles; only the entry is meant for people.
const (
	webAddress     = "127.0.0.1:9400"
	catalogAddress = "127.0.0.1:9401"
	pricesAddress  = "127.0.0.1:9402"
)

var client = &http.Client{Timeout: 2 * time.Second}

// book is what the catalog knows.
type book struct {
	ID    string  `json:"id"`
	Title string  `json:"title"`
	Price float64 `json:"price"`
}

func main() {
	roles := map[string]struct {
		address string
		routes  func(*http.ServeMux)
	}{
		"web": {webAddress, web}, "catalog": {catalogAddress, catalog}, "prices": {pricesAddress, prices},
	}
	name := ""
	if len(os.Args) == 2 {
		name = os.Args[1]
	}
	role, isKnown := roles[name]
	if !isKnown {
		fmt.Fprintln(os.Stderr, "usage: sample web|catalog|prices")
		os.Exit(2)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	role.routes(mux)
	server := &http.Server{Addr: role.address, Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, os.Interrupt)
	go func() {
		<-stop
		server.Close()
	}()
	fmt.Printf("%s listens on %s\n", name, role.address)
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// get decodes the reply of a GET within the request that is served.
func get(r *http.Request, url string, value any) error {
	request, err := http.NewRequestWithContext(r.Context(), http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	reply, err := client.Do(request)
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusOK {
		io.Copy(io.Discard, reply.Body)
		return fmt.Errorf("%s: %s", url, reply.Status)
	}
	return json.NewDecoder(reply.Body).Decode(value)
}

func write(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(value)
}

func web(mux *http.ServeMux) {
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		var books []book
		if err := get(r, "http://"+catalogAddress+"/books", &books); err != nil {
			http.Error(w, "the catalog is not available", http.StatusBadGateway)
			return
		}
		var rates map[string]float64
		if err := get(r, "http://"+pricesAddress+"/rates", &rates); err != nil {
			write(w, books)
			return
		}
		for i := range books {
			url := fmt.Sprintf("http://%s/convert/%s?price=%g", pricesAddress, books[i].ID, books[i].Price)
			if err := get(r, url, &books[i].Price); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
		}
		write(w, books)
	})
}

func catalog(mux *http.ServeMux) {
	mux.HandleFunc("GET /books", func(w http.ResponseWriter, _ *http.Request) {
		write(w, []book{{"1", "On Distributed Failures", 30}, {"2", "Timeouts", 12.5}, {"3", "Retries", 8}})
	})
}

const rate = 1.25

func prices(mux *http.ServeMux) {
	mux.HandleFunc("GET /rates", func(w http.ResponseWriter, _ *http.Request) {
		write(w, map[string]float64{"EUR": rate})
	})
	mux.HandleFunc("GET /convert/{id}", func(w http.ResponseWriter, r *http.Request) {
		var price float64
		if _, err := fmt.Sscanf(r.FormValue("price"), "%g", &price); err != nil {
			http.Error(w, "price must be a number", http.StatusBadRequest)
			return
		}
		write(w, price*rate)
	})
}
