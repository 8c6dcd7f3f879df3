// Package installgrpc hooks gRPC by being imported; see package grpchook.
package installgrpc

import "faultloom.dev/go/message/grpchook"

func init() { grpchook.Install() }
