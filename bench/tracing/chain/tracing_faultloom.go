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

// check walks the chain of calls. Each call has four events: request sent and received, reply sent and received.
func check(bytes []byte) (events int, err error) {
	history, err := wire.DecodeHistory(bytes)
	if err != nil {
		return 0, err
	}
	depth := 0
	for s := history.Segment; ; depth++ {
		if s.Truncated {
			return 0, fmt.Errorf("the history of service %s is truncated", s.Service)
		}
		if depth == services {
			break
		}
		if len(s.Events) != 3 || s.Events[1].Gap || s.Events[1].Child == nil {
			return 0, fmt.Errorf("the history has a gap after service %s", s.Service)
		}
		s = s.Events[1].Child
		events += 4
	}
	return events, nil
}

func sink() { fail("the sink is in the build with -tags otel") }
