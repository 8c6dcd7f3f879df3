//go:build !otel && !faultloom

package main

func newTracing() tracing { return tracing{request: plainRequest} }

func sink() { fail("the sink is in the build with -tags otel") }
