//go:build !otel && !faultloom

package main

func newTracing() tracing { return tracing{request: plainRequest} }

func sink() { fail("only the build with -tags otel has the sink") }
