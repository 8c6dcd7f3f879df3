package faults

import (
	"context"
	"time"

	"faultloom.dev/go/message/scope"
	"faultloom.dev/go/message/wire"
)

// Begin returns what a fault does to a call of a scope, after it has waited for as long as the fault says. The error is
// that of the context if the context ended during the wait; then the request is not sent. Where faults were switched off
// during the wait, the caller's deadline did not end it, so a delayed request is sent.
func Begin(ctx context.Context, s *scope.Scope, protocol Protocol, f *wire.Fault) (Effect, error) {
	e := FaultEffect(protocol, f, timeoutMS(ctx))
	if e.WaitMS == 0 {
		return e, nil
	}
	elapsed, err := s.WaitForFault(ctx, time.Duration(e.WaitMS)*time.Millisecond)
	if err == nil && !elapsed {
		e = FaultEffect(protocol, f, NoTimeout)
	}
	return e, err
}

// timeoutMS rounds up: a wait that is as long as the timeout is then ended by the context.
func timeoutMS(ctx context.Context) uint64 {
	deadline, ok := ctx.Deadline()
	if !ok {
		return NoTimeout
	}
	left := time.Until(deadline) + time.Millisecond - 1
	return uint64(max(left/time.Millisecond, 0))
}
