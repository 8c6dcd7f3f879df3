package faults

import (
	"context"
	"time"

	"faultloom.dev/go/message/scope"
	"faultloom.dev/go/message/wire"
)

// EffectAfterWait returns what a fault does to a call of a scope, after it has waited as long as the fault requires. If
// the context ended during the wait, it returns the context's error, and the request is not sent. If faults were
// switched off during the wait, the caller's deadline did not end it, so a delayed request is sent.
func EffectAfterWait(ctx context.Context, s *scope.Scope, protocol Protocol, f *wire.Fault) (Effect, error) {
	timeout := timeoutMS(ctx)
	e := FaultEffect(protocol, f, timeout)
	if e.WaitMS == 0 {
		return e, nil
	}
	wait := time.Duration(e.WaitMS) * time.Millisecond
	endsAtDeadline := e.WaitMS == timeout
	if endsAtDeadline {
		wait += timerSlack
	}
	elapsed, err := s.WaitForFault(ctx, wait)
	if err != nil {
		return e, err
	}
	if !elapsed {
		return FaultEffect(protocol, f, NoTimeout), nil
	}
	if endsAtDeadline {
		return e, context.DeadlineExceeded
	}
	return e, nil
}

// timerSlack is added to a wait that the caller's deadline ends, so that usually the context ends it and not the timer.
// On a busy machine both may have expired before this goroutine runs.
const timerSlack = 10 * time.Millisecond

// timeoutMS returns the time until the context's deadline, rounded up, or NoTimeout.
func timeoutMS(ctx context.Context) uint64 {
	deadline, ok := ctx.Deadline()
	if !ok {
		return NoTimeout
	}
	left := time.Until(deadline) + time.Millisecond - 1
	return uint64(max(left/time.Millisecond, 0))
}
