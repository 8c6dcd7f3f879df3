// Package bridge sends requests through a service that only has OpenTelemetry, with the real libraries. It is a module
// of its own, so that the SDK does not depend on them.
package bridge

import (
	"net/http"
	"testing"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/propagation"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc"

	"faultloom.dev/go/internal/suite"
)

func hop(t trace.TracerProvider) suite.Hop {
	both := propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})
	inGRPC := []otelgrpc.Option{otelgrpc.WithTracerProvider(t), otelgrpc.WithPropagators(both)}
	inHTTP := []otelhttp.Option{otelhttp.WithTracerProvider(t), otelhttp.WithPropagators(both)}
	return suite.Hop{
		Server:    []grpc.ServerOption{grpc.StatsHandler(otelgrpc.NewServerHandler(inGRPC...))},
		Dial:      []grpc.DialOption{grpc.WithStatsHandler(otelgrpc.NewClientHandler(inGRPC...))},
		Handler:   func(h http.Handler) http.Handler { return otelhttp.NewHandler(h, "hop", inHTTP...) },
		Transport: func(rt http.RoundTripper) http.RoundTripper { return otelhttp.NewTransport(rt, inHTTP...) },
	}
}

func TestRequestsPassOpenTelemetryWithItsSDK(t *testing.T) {
	suite.RunBridge(t, hop(sdk.NewTracerProvider()))
}

func TestRequestsPassOpenTelemetryWithoutItsSDK(t *testing.T) {
	suite.RunBridge(t, hop(noop.NewTracerProvider()))
}

func TestOpenTelemetryAndFaultloomInOneService(t *testing.T) {
	suite.RunWithOpenTelemetry(t, hop(sdk.NewTracerProvider()))
}
