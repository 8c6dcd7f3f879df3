package main

import (
	"context"

	"google.golang.org/grpc"
)

// tracing is what a way of building adds. newTracing, in one of tracing_*.go, makes it.
type tracing struct {
	server   []grpc.ServerOption
	dial     []grpc.DialOption
	commands map[string]func([]string) any
	// request makes one request of the load generator; the history is that of the whole request, if one came back.
	request func(call func(context.Context) error) (history []byte, err error)
	// check tells how many events a history of so many calls holds; an incomplete one is an error.
	check func(history []byte, calls int) (events int, err error)
}

func plainRequest(call func(context.Context) error) ([]byte, error) {
	return nil, call(context.Background())
}
