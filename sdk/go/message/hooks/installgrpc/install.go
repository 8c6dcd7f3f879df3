// Package installgrpc hooks gRPC when it is imported; see package grpchook.
package installgrpc

import (
	"google.golang.org/grpc"

	"faultloom.dev/go/message/entry/status"
	"faultloom.dev/go/message/hooks/grpchook"
	"faultloom.dev/go/message/trust"
)

func init() {
	if !trust.Configured() { // there will never be keys, so the hooks would only cost time
		status.Refused("google.golang.org/grpc", grpc.Version, trust.NoSettings)
		return
	}
	grpchook.Install()
}
