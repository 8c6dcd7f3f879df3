// Package auto hooks a program with one line:
//
//	import _ "faultloom.dev/go/auto"
//
// It covers gRPC on both sides and requests of http.DefaultTransport to http:// addresses. For an HTTP server, wrap the
// handler with faultloom.Handler. For other transports, and for https:// addresses, use faultloom.Transport. A program
// built with faultloom-go needs neither this import nor those wrappers.
package auto

import (
	"net/http"
	"runtime"

	_ "faultloom.dev/go/message/entry/exporttls"
	"faultloom.dev/go/message/entry/status"
	"faultloom.dev/go/message/hooks/grpchook"
	"faultloom.dev/go/message/hooks/httphook"
)

func init() {
	grpchook.Install()
	if t, ok := http.DefaultTransport.(*http.Transport); ok {
		httphook.InstallTransport(t)
		status.Hooked("net/http", runtime.Version())
	}
}
