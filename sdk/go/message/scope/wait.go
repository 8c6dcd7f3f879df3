package scope

import (
	"context"
	"time"
)

// MaxFaultWait bounds how long a fault blocks a call.
const MaxFaultWait = 30 * time.Second

// switchCheckInterval is how often a waiting fault checks whether faults are still enabled.
const switchCheckInterval = 200 * time.Millisecond

// WaitForFault blocks for the given time, at most 30 s. It ends early when the context ends, whose error it returns,
// and when faults are switched off at this service; then elapsed is false.
func (s *Scope) WaitForFault(ctx context.Context, wait time.Duration) (elapsed bool, err error) {
	end := time.NewTimer(min(wait, MaxFaultWait))
	defer end.Stop()
	check := time.NewTicker(switchCheckInterval)
	defer check.Stop()
	for {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-end.C:
			return true, nil
		case <-check.C:
			if !s.process.Receiver.FaultsEnabled() {
				return false, nil
			}
		}
	}
}
