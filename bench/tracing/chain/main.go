// Command chain is the program that the tracing bench measures: three gRPC services that forward a parcel, the load
// generator with its closed-loop clients, and the sink that OpenTelemetry exports to. There are three builds of one
// source:
//
//	go build                    untraced: the binary contains no tracer
//	go build -tags otel         OpenTelemetry SDK and otelgrpc's stats handlers; also has the sink
//	go build -tags faultloom    the load generator that starts signed requests with the Go SDK
//
// The services with Faultloom are the untraced source built by faultloom-go. tracing_*.go has what a build adds.
//
//	chain node [NEXT [CALLS]]              a service; calls address NEXT, CALLS times per request (default 1)
//	chain load ADDRESS HOPS CALLS SAMPLE   the load generator; HOPS and CALLS of a request, and one in SAMPLE is traced
//	chain sink                             OTLP receiver, gRPC and HTTP, that counts spans
//
// A process prints one JSON line when it is ready, then reads commands from standard input and replies to each with one
// JSON line; see control.go. It ends at the end of its input, so that no process outlives the bench.
package main

import (
	"fmt"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"bench.example/tracing/gen"
)

func main() {
	if len(os.Args) < 2 {
		fail("usage: chain node [NEXT [CALLS]] | load ADDRESS HOPS CALLS SAMPLE | sink")
	}
	switch role, rest := os.Args[1], os.Args[2:]; role {
	case "node":
		node(rest)
	case "load":
		load(rest)
	case "sink":
		sink()
	default:
		fail("unknown role %q", role)
	}
}

func dial(address string, options []grpc.DialOption) gen.ChainClient {
	options = append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))
	channel, err := grpc.NewClient(address, options...)
	if err != nil {
		fail("%v", err)
	}
	return gen.NewChainClient(channel)
}

func fail(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "chain: "+format+"\n", args...)
	os.Exit(1)
}
