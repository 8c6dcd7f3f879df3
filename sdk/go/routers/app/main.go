// Command app serves the same routes with the router that its argument names. Like many programs, it gives the router a
// copy of each request.
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/gorilla/mux"
	echo4 "github.com/labstack/echo/v4"
	echo5 "github.com/labstack/echo/v5"
)

func ok(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") }

var handlers = map[string]func() http.Handler{
	"ServeMux": func() http.Handler {
		m := http.NewServeMux()
		m.HandleFunc("GET /product/{id}", ok)
		m.HandleFunc("/files/{path...}", ok)
		m.HandleFunc("/static/", ok)
		inner := http.NewServeMux()
		inner.HandleFunc("/users/{user}/orders/{order}", ok)
		m.Handle("/api/", http.StripPrefix("/api", inner))
		m.HandleFunc("/{$}", ok)
		return m
	},
	"mux": func() http.Handler {
		m := mux.NewRouter()
		m.HandleFunc("/product/{id:[0-9A-Z]{3,20}}", ok).Methods("GET")
		m.HandleFunc("/files/{path:.*}", ok)
		m.PathPrefix("/static/").HandlerFunc(ok)
		m.PathPrefix("/api").Subrouter().HandleFunc("/users/{user}/orders/{order}", ok)
		m.HandleFunc("/", ok)
		return m
	},
	"chi": func() http.Handler {
		m := chi.NewRouter()
		m.Get("/product/{id:[0-9A-Z]+}", ok)
		m.Get("/files/*", ok)
		m.Handle("/static/*", http.HandlerFunc(ok))
		m.Route("/api", func(r chi.Router) { r.Get("/users/{user}/orders/{order}", ok) })
		m.Get("/", ok)
		return m
	},
	"gin": func() http.Handler {
		gin.SetMode(gin.ReleaseMode)
		m := gin.New()
		ok := gin.WrapF(ok)
		m.GET("/product/:id", ok)
		m.GET("/files/*path", ok)
		m.GET("/static/*path", ok)
		m.Group("/api").GET("/users/:user/orders/:order", ok)
		m.GET("/", ok)
		return m
	},
	"echo v4": func() http.Handler {
		m := echo4.New()
		ok := echo4.WrapHandler(http.HandlerFunc(ok))
		m.GET("/product/:id", ok)
		m.GET("/files/*", ok)
		m.GET("/static/*", ok)
		m.Group("/api").GET("/users/:user/orders/:order", ok)
		m.GET("/", ok)
		return m
	},
	"echo v5": func() http.Handler {
		m := echo5.New()
		ok := echo5.WrapHandler(http.HandlerFunc(ok))
		m.GET("/product/:id", ok)
		m.GET("/files/*", ok)
		m.GET("/static/*", ok)
		m.Group("/api").GET("/users/:user/orders/:order", ok)
		m.GET("/", ok)
		return m
	},
}

type key struct{}

func main() {
	router := handlers[os.Args[1]]()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(l.Addr())
	go func() { io.Copy(io.Discard, os.Stdin); os.Exit(0) }()
	http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		router.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), key{}, true)))
	}))
}
