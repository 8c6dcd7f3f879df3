// Command chain is what the tracing bench measures: three gRPC services that pass a parcel on, the load generator with
// its closed-loop clients, and the sink that OpenTelemetry exports to. One source, three ways to build it:
//
//	go build                    untraced: nothing of any tracer is in the binary
//	go build -tags otel         OpenTelemetry SDK and otelgrpc's stats handlers; also has the sink
//	go build -tags faultloom    the load generator that begins signed requests with the Go SDK
//
// and the services under Faultloom are the untraced source built by faultloom-go. What a build adds is in tracing_*.go.
//
//	chain node [NEXT [CALLS]]              a service; NEXT is the address of the one it calls, CALLS times each (1)
//	chain load ADDRESS HOPS CALLS SAMPLE   the load generator; what a request does, and one in how many is traced
//	chain sink                             OTLP receiver, gRPC and HTTP, that counts spans
//
// A process prints one JSON line when it is ready, then reads commands from standard input and answers each with one
// JSON line; see control.go. It ends with its input, so that nothing outlives the bench.
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
		fail("no role %q", role)
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
