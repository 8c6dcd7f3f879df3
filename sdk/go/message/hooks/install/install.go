//go:build faultloom_overlay

// Package install hooks net/http by being imported. What it links to exists only in the net/http that faultloom-go makes
// for one build, and so does this package: it is compiled as part of the program's own module. net/http calls the hooks by
// their names, so that a program without HTTP servers or clients does not have them.
package install

import (
	"net/http"
	"runtime"
	_ "unsafe" // for linkname

	"faultloom.dev/go/message/entry/status"
	"faultloom.dev/go/message/hooks/httphook"
	"faultloom.dev/go/message/trust"
)

//go:linkname on net/http.faultloomOn
var on bool

//go:linkname serve net/http.faultloomServer
func serve(next http.Handler, w http.ResponseWriter, r *http.Request) bool {
	return httphook.Serve(next, w, r, nil)
}

//go:linkname send net/http.faultloomClient
func send(r *http.Request, next func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	return httphook.RoundTrip(r, next)
}

func init() {
	if !trust.Configured() { // keys can never come, and nothing needs to stand in the program's way
		status.Report("net/http", runtime.Version(), trust.NoSettings)
		return
	}
	on = true
	status.Report("net/http", runtime.Version(), "")
}
