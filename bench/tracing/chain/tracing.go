package main

import (
	"context"

	"google.golang.org/grpc"
)

// tracing is what a build adds. newTracing, in one of tracing_*.go, returns it.
type tracing struct {
	server   []grpc.ServerOption
	dial     []grpc.DialOption
	commands map[string]func([]string) any
	// request makes one request of the load generator. The history is that of the whole request, or nil.
	request func(call func(context.Context) error) (history []byte, err error)
	// check returns how many events a history has. A history without the given number of calls is an error.
	check func(history []byte, calls int) (events int, err error)
}

func plainRequest(call func(context.Context) error) ([]byte, error) {
	return nil, call(context.Background())
}
