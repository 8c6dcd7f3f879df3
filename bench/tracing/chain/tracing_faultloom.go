//go:build faultloom

package main

import (
	"context"
	"fmt"

	faultloom "faultloom.dev/go"
	_ "faultloom.dev/go/auto"
	"faultloom.dev/go/message/wire"
)

// newTracing starts each request with a new envelope, signed with the trace key of FAULTLOOM_TRUST_FILE.
func newTracing() tracing {
	return tracing{request: tracedRequest, check: check}
}

func tracedRequest(call func(context.Context) error) ([]byte, error) {
	ctx, request, err := faultloom.Start(context.Background(), faultloom.Options{})
	if err != nil {
		return nil, err
	}
	err = call(ctx)
	return request.Finish(), err
}

// check counts the calls of a history. Each has four events: request sent and received, reply sent and received.
func check(bytes []byte, calls int) (events int, err error) {
	history, err := wire.DecodeHistory(bytes)
	if err != nil {
		return 0, err
	}
	segments, err := countSegments(history.Segment)
	found := segments - 1 // the outermost segment is the load generator's
	if err == nil && found != calls {
		err = fmt.Errorf("the history has %d of %d calls", found, calls)
	}
	return 4 * found, err
}

// countSegments returns the number of segments in a tree. A gap is an error.
func countSegments(s *wire.Segment) (segments int, err error) {
	if s.Truncated {
		return 0, fmt.Errorf("the history of service %s is truncated", s.Service)
	}
	segments = 1
	for _, event := range s.Events {
		if event.Kind != wire.RecvResponse {
			continue
		}
		if event.Gap || event.Child == nil {
			return 0, fmt.Errorf("the history has a gap after service %s", s.Service)
		}
		calls, err := countSegments(event.Child)
		if err != nil {
			return 0, err
		}
		segments += calls
	}
	return segments, nil
}

func sink() { fail("only the build with -tags otel has the sink") }
