// The prices of products, over TLS. Clients need a certificate of the authority.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"log"
	"net/http"
	"os"
)

func price(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("content-type", "application/json")
	json.NewEncoder(w).Encode(map[string]any{"id": r.PathValue("id"), "cents": 1250, "http": r.Proto})
}

func main() {
	authority, err := os.ReadFile(os.Getenv("CLIENT_CA"))
	if err != nil {
		log.Fatal(err)
	}
	clients := x509.NewCertPool()
	if !clients.AppendCertsFromPEM(authority) {
		log.Fatal("CLIENT_CA has no certificate")
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /price/{id}", price)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {})
	server := &http.Server{
		Addr:      "127.0.0.1:" + os.Getenv("PORT"),
		Handler:   mux,
		TLSConfig: &tls.Config{ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert},
	}
	if os.Getenv("ONLY_HTTP2") != "" {
		server.Protocols = new(http.Protocols)
		server.Protocols.SetHTTP2(true)
	}
	log.Fatal(server.ListenAndServeTLS(os.Getenv("TLS_CERT"), os.Getenv("TLS_KEY")))
}
