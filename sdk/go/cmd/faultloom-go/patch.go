package main

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
)

// patch is one change of a file of the standard library.
type patch struct {
	file       string // below GOROOT/src
	insertions []insertion
	suffix     string // appended to the file
}

// insertion replaces an anchor, which must occur exactly once. With after, which must occur exactly once, it replaces
// the first anchor behind it. An optional one is left out if it cannot be made.
type insertion struct {
	optional                   bool
	after, anchor, replacement string
}

// Package hooks/install has the bodies of the appended functions. The linker keeps them in programs that use the
// patched function, and removes them from others.
var patches = []patch{
	{
		file: "net/http/server.go",
		insertions: []insertion{
			{anchor: "\n\thandler.ServeHTTP(rw, req)\n", replacement: `
	if faultloomOn && faultloomServer(handler, rw, req) {
		return
	}
	handler.ServeHTTP(rw, req)
`},
			{optional: true, after: "\n\t\th, r.Pattern, r.pat, r.matches = mux.findHandler(r)\n", anchor: "\n\th.ServeHTTP(w, r)\n}\n", replacement: `
	if faultloomOn {
		faultloomRoute(r, 0, r.Pattern)
	}
	h.ServeHTTP(w, r)
}
`},
		},
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

// faultloomRoute names the call that a router serves, by the template of its route.
//
//go:linkname faultloomRoute
func faultloomRoute(r *Request, notation byte, template string)
`,
	},
	{
		file: "net/http/roundtrip.go",
		insertions: []insertion{{anchor: "\n\treturn t.roundTrip(req)\n", replacement: `
	if faultloomOn {
		return faultloomClient(req, t.roundTrip)
	}
	return t.roundTrip(req)
`}},
		suffix: `
// faultloomClient sends a request with the given function.
//
//go:linkname faultloomClient
func faultloomClient(*Request, func(*Request) (*Response, error)) (*Response, error)
`,
	},
}

// runtimePatches add a pointer to each goroutine, which the goroutines that it starts inherit. Timers start goroutines
// from none, so a function that runs after a time brings the pointer along. The text does not depend on the SDK's
// version: a change compiles the whole standard library again.
var runtimePatches = []patch{
	{
		file: "runtime/runtime2.go",
		insertions: []insertion{{after: "\ntype g struct {\n", anchor: "\n}\n", replacement: `

	// faultloom is a pointer of the SDK.
	faultloom unsafe.Pointer
}
`}},
	},
	{
		file: "runtime/proc.go",
		insertions: []insertion{
			{anchor: "\n\tnewg.startpc = fn.fn\n", replacement: "\n\tnewg.startpc = fn.fn\n\tnewg.faultloom = callergp.faultloom\n"},
			{anchor: "\n\tgp.labels = nil\n", replacement: "\n\tgp.labels = nil\n\tgp.faultloom = nil\n"},
		},
	},
	{
		file: "runtime/proflabel.go",
		suffix: `
// faultloomGet returns the SDK's pointer in the running goroutine.
//
//go:linkname faultloomGet
func faultloomGet() unsafe.Pointer { return getg().faultloom }

// faultloomSwap sets the SDK's pointer in the running goroutine and returns the one before.
//
//go:linkname faultloomSwap
func faultloomSwap(pointer unsafe.Pointer) unsafe.Pointer {
	gp := getg()
	old := gp.faultloom
	gp.faultloom = pointer
	return old
}
`,
	},
	{
		file:       "time/sleep.go",
		insertions: []insertion{{anchor: "0, goFunc, f, nil)", replacement: "0, goFunc, faultloomBind(f), nil)"}},
		suffix: `
//go:linkname faultloomGet runtime.faultloomGet
func faultloomGet() unsafe.Pointer

//go:linkname faultloomSwap runtime.faultloomSwap
func faultloomSwap(unsafe.Pointer) unsafe.Pointer

// faultloomBind returns a function that runs f with the SDK's pointer of the goroutine that runs now.
func faultloomBind(f func()) func() {
	pointer := faultloomGet()
	if pointer == nil || f == nil {
		return f
	}
	return func() {
		faultloomSwap(pointer) // in a goroutine of its own
		f()
	}
}
`,
	},
}

// applyRuntime adds the patched files of the runtime. Either all patches apply or none: then it returns false, and
// calls belong to requests by their contexts only.
func applyRuntime(env environment, files map[string][]byte) bool {
	patched := map[string][]byte{}
	for _, p := range runtimePatches {
		file, text, err := p.apply(env)
		if err != nil {
			return false
		}
		patched[file] = text
	}
	maps.Copy(files, patched)
	return true
}

// apply returns the patched file. It refuses a toolchain in which an anchor does not occur exactly once.
func (p patch) apply(env environment) (path string, text []byte, err error) {
	path = filepath.Join(env.GOROOT, "src", filepath.FromSlash(p.file))
	source, err := os.ReadFile(path)
	if err != nil {
		return "", nil, err
	}
	s := string(source)
	if !strings.Contains(s, `"unsafe"`) {
		return "", nil, p.refuse(env, `"unsafe"`, 0)
	}
	for _, in := range p.insertions {
		patched, anchor, n := in.apply(s)
		if n == 1 {
			s = patched
		} else if !in.optional {
			return "", nil, p.refuse(env, anchor, n)
		}
	}
	return path, []byte(s + p.suffix), nil
}

// apply returns the text with the insertion. n is 1, or else the anchor that was not found occurs n times.
func (in insertion) apply(s string) (patched, anchor string, n int) {
	anchor, from := in.anchor, 0
	if in.after != "" {
		anchor = in.after
		from = max(strings.Index(s, anchor), 0) + len(anchor) - 1 // the line's end may begin the anchor
	}
	if n = strings.Count(s, anchor); n != 1 {
		return s, anchor, n
	}
	if !strings.Contains(s[from:], in.anchor) {
		return s, in.anchor, 0
	}
	return s[:from] + strings.Replace(s[from:], in.anchor, in.replacement, 1), in.anchor, 1
}

func (p patch) refuse(env environment, anchor string, n int) error {
	return refuse(exitEnvironment, `%s of %s is not as expected: %q occurs %d times instead of once.
faultloom-go does not support this toolchain. Build with go, import "faultloom.dev/go/auto" (gRPC, and HTTP requests)
in package main, and wrap HTTP handlers with faultloom.Handler.`, p.file, env.GOVERSION, strings.TrimSpace(anchor), n)
}
