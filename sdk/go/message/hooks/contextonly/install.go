// Package contextonly reports that goroutines have no scope: the overlay does not know the source of this runtime.
// Calls belong to requests by their contexts only.
package contextonly

import (
	"runtime"

	"faultloom.dev/go/message/entry/status"
)

// Reason is in the status file.
const Reason = "its source is not as expected, so a call whose context has lost its request is counted, but has no scope"

func init() { status.Refused("runtime", runtime.Version(), Reason) }
