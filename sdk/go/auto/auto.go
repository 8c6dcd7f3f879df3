// Package auto hooks a program by one line:
//
//	import _ "faultloom.dev/go/auto"
//
// It covers gRPC on both sides and requests of http.DefaultTransport to http:// addresses. For an HTTP server wrap the
// handler with faultloom.Handler; for transports of your own, and for https://, use faultloom.Transport. A program built
// with faultloom-go needs neither this import nor those wrappers.
package auto

import (
	"net/http"
	"runtime"

	_ "faultloom.dev/go/message/exporttls"
	"faultloom.dev/go/message/grpchook"
	"faultloom.dev/go/message/httphook"
	"faultloom.dev/go/message/status"
)

func init() {
	grpchook.Install()
	if t, ok := http.DefaultTransport.(*http.Transport); ok {
		httphook.InstallTransport(t)
		status.Report("net/http", runtime.Version(), "")
	}
}
