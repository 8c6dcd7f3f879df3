// Package installgrpc hooks gRPC by being imported; see package grpchook.
package installgrpc

import (
	"faultloom.dev/go/message/grpchook"
	"faultloom.dev/go/message/trust"
)

func init() {
	if trust.Configured() { // else keys can never come, and nothing needs to stand in the program's way
		grpchook.Install()
	}
}
