package main

import (
	"os"
	"path/filepath"
	"strings"
)

// patch is one insertion into the standard library. The anchor must stand there exactly once: a toolchain that has moved
// it is refused, never guessed at.
type patch struct {
	file    string // below GOROOT/src
	anchor  string
	instead string
	end     string // appended to the file
}

// Package install has the bodies of the functions that are appended: the linker takes them into programs that use the
// place they are called from, and leaves them out of others.
var patches = []patch{
	{
		file:   "net/http/server.go",
		anchor: "\n\thandler.ServeHTTP(rw, req)\n",
		instead: `
	if faultloomOn && faultloomServer(handler, rw, req) {
		return
	}
	handler.ServeHTTP(rw, req)
`,
		end: `
// faultloomOn tells that the hooks are to be called.
//
//go:linkname faultloomOn
var faultloomOn bool

// faultloomServer serves a request that belongs to a scope. False: it does not, and was not served.
//
//go:linkname faultloomServer
func faultloomServer(Handler, ResponseWriter, *Request) bool
`,
	},
	{
		file:   "net/http/roundtrip.go",
		anchor: "\n\treturn t.roundTrip(req)\n",
		instead: `
	if faultloomOn {
		return faultloomClient(req, t.roundTrip)
	}
	return t.roundTrip(req)
`,
		end: `
// faultloomClient sends a request, by way of the function it is given.
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
		return "", nil, refuse(exitEnvironment, `%s of %s is not as expected: %q stands there %d times instead of once.
This toolchain is not supported by the overlay. Build with go and import "faultloom.dev/go/auto" (gRPC, and HTTP requests)
in package main; wrap HTTP handlers with faultloom.Handler.`, p.file, env.GOVERSION, strings.TrimSpace(p.anchor), n)
	}
	return path, []byte(strings.Replace(s, p.anchor, p.instead, 1) + p.end), nil
}
