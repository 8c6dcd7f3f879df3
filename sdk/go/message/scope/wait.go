package scope

import (
	"context"
	"time"

	"faultloom.dev/go/message/wire"
)

// maxWait caps delay and hang.
const maxWait = 30 * time.Second

// Wait blocks for what a delay or hang asks, at most 30 s, until the context ends (its error is returned), or until
// faults are switched off at this service.
func (s *Scope) WaitForFault(ctx context.Context, f *wire.Fault) error {
	limit := maxWait
	if ms := f.Arg; ms < uint64(maxWait/time.Millisecond) && (ms > 0 || f.Kind == wire.Delay) {
		limit = time.Duration(ms) * time.Millisecond
	}
	end := time.NewTimer(limit)
	defer end.Stop()
	look := time.NewTicker(200 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-end.C:
			return nil
		case <-look.C:
			if !s.process.Receiver.FaultsEnabled() {
				return nil
			}
		}
	}
}
