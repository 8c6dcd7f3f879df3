package main

import (
	"os"
	"path/filepath"
	"strings"
)

// patch is one insertion into the standard library. The anchor must occur exactly once; otherwise the toolchain is
// refused.
type patch struct {
	file        string // below GOROOT/src
	anchor      string
	replacement string
	suffix      string // appended to the file
}

// Package hooks/install has the bodies of the appended functions. The linker keeps them in programs that use the
// patched function, and removes them from others.
var patches = []patch{
	{
		file:   "net/http/server.go",
		anchor: "\n\thandler.ServeHTTP(rw, req)\n",
		replacement: `
	if faultloomOn && faultloomServer(handler, rw, req) {
		return
	}
	handler.ServeHTTP(rw, req)
`,
		suffix: `
// faultloomOn enables the hooks.
//
//go:linkname faultloomOn
var faultloomOn bool

// faultloomServer serves a request that is traced. It returns false if the request is not traced; then it was not
// served.
//
//go:linkname faultloomServer
func faultloomServer(Handler, ResponseWriter, *Request) bool
`,
	},
	{
		file:   "net/http/roundtrip.go",
		anchor: "\n\treturn t.roundTrip(req)\n",
		replacement: `
	if faultloomOn {
		return faultloomClient(req, t.roundTrip)
	}
	return t.roundTrip(req)
`,
		suffix: `
// faultloomClient sends a request with the given function.
//
//go:linkname faultloomClient
func faultloomClient(*Request, func(*Request) (*Response, error)) (*Response, error)
`,
	},
}

// apply returns the patched file.
func (p patch) apply(env environment) (path string, text []byte, err error) {
	path = filepath.Join(env.GOROOT, "src", filepath.FromSlash(p.file))
	source, err := os.ReadFile(path)
	if err != nil {
		return "", nil, err
	}
	s := string(source)
	if n := strings.Count(s, p.anchor); n != 1 || !strings.Contains(s, `"unsafe"`) {
		return "", nil, refuse(exitEnvironment, `%s of %s is not as expected: %q occurs %d times instead of once.
faultloom-go does not support this toolchain. Build with go, import "faultloom.dev/go/auto" (gRPC, and HTTP requests)
in package main, and wrap HTTP handlers with faultloom.Handler.`, p.file, env.GOVERSION, strings.TrimSpace(p.anchor), n)
	}
	return path, []byte(strings.Replace(s, p.anchor, p.replacement, 1) + p.suffix), nil
}
