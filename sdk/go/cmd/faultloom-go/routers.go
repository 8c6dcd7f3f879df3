package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// routersFile is added to the package of a router. It declares the hook in net/http, which has its body from package
// hooks/install.
const (
	routersFile = "zz_faultloom.go"
	routersText = `package %s

import (
	"net/http"
	_ "unsafe" // for linkname
)

// faultloomRoute names the call that a router serves, by the template of its route.
//
//go:linkname faultloomRoute net/http.faultloomRoute
func faultloomRoute(r *http.Request, notation byte, template string)
`
)

// router is a package that finds the handler of a request. It gives handlers a copy of the request, so that only a
// change in its source can observe which route it has found. The notations are those of package httphook.
type router struct {
	path, name string // import path, package name
	file       string // of the package
	insertion  insertion
}

var routers = []router{
	{"github.com/gorilla/mux", "mux", "mux.go", insertion{anchor: "\n\thandler.ServeHTTP(w, req)\n", replacement: `
	if match.Route != nil {
		if template, err := match.Route.GetPathTemplate(); err == nil {
			faultloomRoute(req, '{', template)
		}
	}
	handler.ServeHTTP(w, req)
`}},
	{"github.com/go-chi/chi/v5", "chi", "mux.go", insertion{after: "mx.tree.FindRoute(rctx, method, routePath); h != nil {\n", anchor: "\n\t\th.ServeHTTP(w, r)\n", replacement: `
		faultloomRoute(r, '{', rctx.RoutePattern())
		h.ServeHTTP(w, r)
`}},
	{"github.com/gin-gonic/gin", "gin", "gin.go", insertion{anchor: "\n\t\t\tc.fullPath = value.fullPath\n", replacement: `
			c.fullPath = value.fullPath
			faultloomRoute(c.Request, ':', c.fullPath)
`}},
	{"github.com/labstack/echo/v4", "echo", "echo.go", insertion{after: "\nfunc (e *Echo) ServeHTTP(w http.ResponseWriter, r *http.Request) {\n", anchor: "\n\te.pool.Put(c)\n", replacement: `
	faultloomRoute(r, ':', c.Path())
	e.pool.Put(c)
`}},
	{"github.com/labstack/echo/v5", "echo", "echo.go", insertion{after: "\nfunc (e *Echo) serveHTTP(w http.ResponseWriter, r *http.Request) {\n", anchor: "\n\tif err != nil {\n\t\te.HTTPErrorHandler(c, err)\n", replacement: `
	faultloomRoute(r, ':', c.Path())
	if err != nil {
		e.HTTPErrorHandler(c, err)
`}},
}

// addRouters adds the patched files of the routers that the packages use. A router that cannot be patched stays as it
// is, with one line on standard error: its calls are named by their paths.
func addRouters(files map[string][]byte, env environment, inv *invocation, packages []goPackage) error {
	used := slices.DeleteFunc(slices.Clone(routers), func(r router) bool {
		return !slices.ContainsFunc(packages, func(p goPackage) bool { return p.dependsOn(r.path) })
	})
	if len(used) == 0 {
		return nil
	}
	located, err := locateRouters(inv, used)
	if err != nil {
		return err
	}
	replaced := newReplacements(env, inv, packages)
	for _, r := range used {
		l := located[r.path]
		source, err := os.ReadFile(filepath.Join(l.Dir, r.file))
		if err != nil {
			return err
		}
		text, _, n := r.insertion.apply(string(source))
		dir := l.Dir
		reason := ""
		switch {
		case n != 1:
			reason = "its source is not as expected"
		case isBelow(dir, env.GOMODCACHE):
			dir, reason, err = replaced.add(files, r, l)
			if err != nil {
				return err
			}
		}
		if reason != "" {
			fmt.Fprintf(os.Stderr, "faultloom-go: %s: %s; calls are named by their paths, not by its route templates\n", r.path, reason)
			continue
		}
		files[filepath.Join(dir, r.file)] = []byte(text)
		files[filepath.Join(dir, routersFile)] = []byte(fmt.Sprintf(routersText, r.name))
	}
	return replaced.addGoMod(files, inv)
}

// location is the output of go list for the package of a router.
type location struct {
	Dir, ImportPath string
	Module          *struct {
		Path, Dir string
		Replace   *struct{ Path string }
	}
}

func locateRouters(inv *invocation, used []router) (map[string]location, error) {
	args := append([]string{"list", "-find", "-json=Dir,ImportPath,Module"}, inv.listFlags...)
	for _, r := range used {
		args = append(args, r.path)
	}
	out, err := goOutput(args...)
	if err != nil {
		return nil, err
	}
	located := map[string]location{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var l location
		if err := d.Decode(&l); errors.Is(err, io.EOF) {
			return located, nil
		} else if err != nil {
			return nil, err
		}
		located[l.ImportPath] = l
	}
}

// replacements are modules that the program's go.mod replaces, in the overlay only, by the same modules in the overlay:
// go refuses overlays of files in its module cache.
type replacements struct {
	module  string // folder of the program's module
	refused string // why go.mod cannot be in the overlay, or empty
	edits   []string
}

func newReplacements(env environment, inv *invocation, packages []goPackage) *replacements {
	r := new(replacements)
	for _, p := range packages {
		if p.Module != nil && p.Module.Main {
			r.module = p.Module.Dir
		}
	}
	isModfile := func(flag string) bool { return strings.HasPrefix(strings.TrimLeft(flag, "-"), "modfile") }
	if slices.ContainsFunc(append(strings.Fields(env.GOFLAGS), inv.listFlags...), isModfile) {
		r.refused = "-modfile cannot be combined with a changed router"
	}
	return r
}

// add adds the files of a router's module, and returns the folder that the router's package has in the overlay.
func (r *replacements) add(files map[string][]byte, router router, l location) (dir, reason string, err error) {
	if r.refused != "" {
		return "", r.refused, nil
	}
	if l.Module == nil || l.Module.Replace != nil {
		return "", "go.mod replaces it by another module", nil
	}
	folder := path.Join(overlayFolder, "routers", router.path)
	root := filepath.Join(r.module, filepath.FromSlash(folder))
	err = filepath.WalkDir(l.Module.Dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if base := d.Name(); name != l.Module.Dir && (base == "testdata" || strings.HasPrefix(base, "_") || strings.HasPrefix(base, ".")) {
				return fs.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(name, "_test.go") || !d.Type().IsRegular() {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		below, err := filepath.Rel(l.Module.Dir, name)
		files[filepath.Join(root, below)] = text
		return err
	})
	if err != nil {
		return "", "", err
	}
	below, err := filepath.Rel(l.Module.Dir, l.Dir)
	r.edits = append(r.edits, "-replace="+l.Module.Path+"=./"+folder)
	return filepath.Join(root, below), "", err
}

// addGoMod adds the go.mod with the replacements. With -mod=mod, go list has updated the program's own go.mod before.
// The build must not do that: it would also mark dependencies of the SDK as those of the program, and go refuses to
// change a go.mod of an overlay.
func (r *replacements) addGoMod(files map[string][]byte, inv *invocation) error {
	if len(r.edits) == 0 {
		return nil
	}
	file := filepath.Join(r.module, "go.mod")
	text, err := goOutput(append(append([]string{"mod", "edit", "-print"}, r.edits...), file)...)
	if err != nil {
		return err
	}
	files[file] = text
	inv.flags = append(inv.flags, "-mod=readonly")
	return nil
}

func isBelow(path, folder string) bool {
	return folder != "" && strings.HasPrefix(path, filepath.Clean(folder)+string(filepath.Separator))
}
