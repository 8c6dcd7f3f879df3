// Package rest sends and answers JSON over HTTP.
package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
)

// Get requests url and decodes the reply into value. Any status but 200 is an error.
func Get(ctx context.Context, client *http.Client, url string, value any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	return exchange(client, request, value)
}

// Post sends body as JSON. Any status but 200 is an error.
func Post(ctx context.Context, client *http.Client, url string, body any) error {
	encoded, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(encoded))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	return exchange(client, request, nil)
}

func exchange(client *http.Client, request *http.Request, value any) error {
	reply, err := client.Do(request)
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(reply.Body)
	if err != nil {
		return err
	}
	if reply.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: status %d", request.Method, request.URL.Path, reply.StatusCode)
	}
	if value == nil {
		return nil
	}
	return json.Unmarshal(body, value)
}

// Reply answers with value as JSON.
func Reply(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(value); err != nil {
		log.Print(err)
	}
}

// Fail logs the error and answers with it.
func Fail(w http.ResponseWriter, status int, err error) {
	log.Print(err)
	Reply(w, status, map[string]string{"error": err.Error()})
}
