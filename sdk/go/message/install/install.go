//go:build faultloom_overlay

// Package install hooks net/http by being imported. Both variables exist only in the net/http that faultloom-go makes
// for one build, and so does this package: it is compiled as part of the program's own module.
package install

import (
	"net/http"
	"runtime"
	_ "unsafe" // for linkname

	"faultloom.dev/go/message/httphook"
	"faultloom.dev/go/message/status"
	"faultloom.dev/go/message/trust"
)

//go:linkname serverHook net/http.faultloomServer
var serverHook func(http.Handler, http.ResponseWriter, *http.Request) bool

//go:linkname clientHook net/http.faultloomClient
var clientHook func(*http.Request, func(*http.Request) (*http.Response, error)) (*http.Response, error)

func init() {
	if !trust.Configured() { // keys can never come, and nothing needs to stand in the program's way
		status.Report("net/http", runtime.Version(), trust.NoSettings)
		return
	}
	serverHook = func(next http.Handler, w http.ResponseWriter, r *http.Request) bool {
		return httphook.Serve(next, w, r, nil)
	}
	clientHook = httphook.RoundTrip
	status.Report("net/http", runtime.Version(), "")
}
