//go:build faultloom

package main

import (
	"context"
	"fmt"

	faultloom "faultloom.dev/go"
	_ "faultloom.dev/go/auto"
	"faultloom.dev/go/message/wire"
)

// newTracing begins each request with a signed envelope of its own, with the trace key of FAULTLOOM_TRUST_FILE.
func newTracing() tracing {
	return tracing{request: begin, check: check}
}

func begin(call func(context.Context) error) ([]byte, error) {
	ctx, request, err := faultloom.Start(context.Background(), faultloom.Options{})
	if err != nil {
		return nil, err
	}
	err = call(ctx)
	return request.Finish(), err
}

// check walks the tree of calls. Each has four events: request sent and received, reply sent and received.
func check(bytes []byte, calls int) (events int, err error) {
	history, err := wire.DecodeHistory(bytes)
	if err != nil {
		return 0, err
	}
	segments, err := count(history.Segment)
	found := segments - 1 // the outermost is the load generator's own
	if err == nil && found != calls {
		err = fmt.Errorf("the history has %d of %d calls", found, calls)
	}
	return 4 * found, err
}

// count is how many segments there are from here on; a gap is an error.
func count(s *wire.Segment) (segments int, err error) {
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
		below, err := count(event.Child)
		if err != nil {
			return 0, err
		}
		segments += below
	}
	return segments, nil
}

func sink() { fail("the sink is in the build with -tags otel") }
