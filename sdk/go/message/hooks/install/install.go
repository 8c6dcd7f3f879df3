//go:build faultloom_overlay

// Package install hooks net/http when it is imported. It is compiled as part of the program's own module, in builds by
// faultloom-go only: the variables and functions that it links to exist only in the net/http of such a build. net/http
// calls the hooks by their linker names, so the linker leaves them out of programs without HTTP servers or clients.
package install

import (
	"net/http"
	"runtime"
	_ "unsafe" // for linkname

	"faultloom.dev/go/message/entry/status"
	"faultloom.dev/go/message/hooks/httphook"
	"faultloom.dev/go/message/trust"
)

//go:linkname enabled net/http.faultloomOn
var enabled bool

//go:linkname serve net/http.faultloomServer
func serve(next http.Handler, w http.ResponseWriter, r *http.Request) bool {
	return httphook.Serve(next, w, r, nil)
}

//go:linkname send net/http.faultloomClient
func send(r *http.Request, next func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	return httphook.RoundTrip(r, next)
}

//go:linkname route net/http.faultloomRoute
func route(r *http.Request, notation byte, template string) { httphook.SetRoute(r, notation, template) }

func init() {
	if !trust.Configured() { // there will never be keys, so the hooks would only cost time
		status.Refused("net/http", runtime.Version(), trust.NoSettings)
		return
	}
	enabled = true
	status.Hooked("net/http", runtime.Version())
}
