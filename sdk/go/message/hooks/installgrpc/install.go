// Package installgrpc hooks gRPC by being imported; see package grpchook.
package installgrpc

import (
	"google.golang.org/grpc"

	"faultloom.dev/go/message/entry/status"
	"faultloom.dev/go/message/hooks/grpchook"
	"faultloom.dev/go/message/trust"
)

func init() {
	if !trust.Configured() { // keys can never come, and nothing needs to stand in the program's way
		status.Report("google.golang.org/grpc", grpc.Version, trust.NoSettings)
		return
	}
	grpchook.Install()
}
