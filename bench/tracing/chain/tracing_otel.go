//go:build otel

package main

import (
	"compress/gzip"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// newTracing configures OpenTelemetry as its manual recommends: batches with the default sizes, every trace sampled,
// W3C headers. OTEL_EXPORTER_OTLP_ENDPOINT and OTEL_SERVICE_NAME are OpenTelemetry's variables.
func newTracing() tracing {
	if os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" {
		fail("OTEL_EXPORTER_OTLP_ENDPOINT is not set")
	}
	exporter, err := otlptracegrpc.New(context.Background(), otlptracegrpc.WithInsecure())
	if err != nil {
		fail("%v", err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter))
	otel.SetTracerProvider(provider)
	otel.SetTextMapPropagator(propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{}))
	return tracing{
		server:  []grpc.ServerOption{grpc.StatsHandler(otelgrpc.NewServerHandler())},
		dial:    []grpc.DialOption{grpc.WithStatsHandler(otelgrpc.NewClientHandler())},
		request: plainRequest, // the channel's stats handler starts the trace
		commands: map[string]func([]string) any{
			// flush exports the spans in incomplete batches, so that no later window pays for them
			"flush": func([]string) any {
				if err := provider.ForceFlush(context.Background()); err != nil {
					fail("%v", err)
				}
				return struct{}{}
			},
		},
	}
}

// receiver counts spans and drops them.
type receiver struct {
	collector.UnimplementedTraceServiceServer
	spans atomic.Int64
}

func (r *receiver) Export(_ context.Context, request *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	n := 0
	for _, resource := range request.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			n += len(scope.Spans)
		}
	}
	r.spans.Add(int64(n))
	return &collector.ExportTraceServiceResponse{}, nil
}

// ServeHTTP is Export for OTLP/HTTP.
func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	var export collector.ExportTraceServiceRequest
	body, err := body(request)
	if err == nil {
		err = proto.Unmarshal(body, &export)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.Export(request.Context(), &export)
	w.Header().Set("content-type", "application/x-protobuf")
}

func body(request *http.Request) ([]byte, error) {
	if request.Header.Get("content-encoding") != "gzip" {
		return io.ReadAll(request.Body)
	}
	plain, err := gzip.NewReader(request.Body)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(plain)
}

func sink() {
	r := &receiver{}
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, r)
	web, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fail("%v", err)
	}
	go func() { fail("%v", http.Serve(web, r)) }()
	serve(server, map[string]func([]string) any{
		"spans": func([]string) any { return map[string]int64{"spans": r.spans.Load()} },
		"http":  func([]string) any { return map[string]string{"address": web.Addr().String()} },
	})
}
