// Command shows serves the shows of a theater.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

type show struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	Hall  string `json:"hall"`
}

var shows = map[string]show{
	"1": {"1", "The Long Tide", "great hall"},
	"2": {"2", "Four Rooms and a Lamp", "studio"},
}

func main() {
	pages := http.NewServeMux()
	pages.HandleFunc("GET /shows/{id}", func(w http.ResponseWriter, r *http.Request) {
		found, ok := shows[r.PathValue("id")]
		if !ok {
			http.Error(w, "no such show", http.StatusNotFound)
			return
		}
		w.Header().Set("content-type", "application/json")
		json.NewEncoder(w).Encode(found)
	})
	pages.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})

	server := &http.Server{Addr: "127.0.0.1:" + os.Getenv("PORT"), Handler: pages, ReadHeaderTimeout: 5 * time.Second}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	go func() {
		<-ctx.Done()
		server.Close()
	}()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
}
