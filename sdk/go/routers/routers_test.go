// Package routers tests route templates with the routers that programs use. It is a module of its own, so that the SDK
// does not depend on them.
package routers

import (
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	faultloom "faultloom.dev/go"
	"faultloom.dev/go/internal/suite"
	"faultloom.dev/go/message/wire"
)

// build builds the program in a folder with the wrapper, and returns its output.
func build(t *testing.T, folder string, environment ...string) (app, output string) {
	t.Helper()
	app, output, err := suite.BuildApp(t.TempDir(), folder, environment...)
	if err != nil {
		t.Fatal(err)
	}
	return app, output
}

// run starts the program and returns its address.
func run(t *testing.T, app, router string) string {
	t.Helper()
	return suite.RunApp(t, app, suite.AppEnvironment("app"), router)
}

func name(t *testing.T, address, path string) string {
	t.Helper()
	ctx, r := suite.Begin(t, faultloom.Options{})
	if _, _, err := suite.Get(ctx, suite.HTTPClient(t), "http://"+address+path); err != nil {
		t.Fatal(err)
	}
	return suite.End(t, r).Events[1].Child.Name
}

func TestRoutersNameCallsByTheirTemplates(t *testing.T) {
	app, output := build(t, "app")
	if output != "" {
		t.Error(output)
	}
	common := []struct{ path, name string }{
		{"/product/OLJCESPC7Z?x=1", "GET /product/{id}"},
		{"/api/users/ann/orders/last", "GET /api/users/{user}/orders/{order}"},
		{"/", "GET /"},
		// no route
		{"/none/17", "GET /none/{id}"},
		{"/product/A/17", "GET /product/A/{id}"},
	}
	for _, c := range []struct{ router, files, static string }{
		{"ServeMux", "/files/{*path}", "/static/site.css"}, // a prefix has no template
		{"mux", "/files/{*path}", "/static/site.css"},
		{"chi", "/files/*", "/static/*"},
		{"gin", "/files/{*path}", "/static/{*path}"},
		{"echo v4", "/files/*", "/static/*"},
		{"echo v5", "/files/*", "/static/*"},
	} {
		t.Run(c.router, func(t *testing.T) {
			address := run(t, app, c.router)
			check := func(path, want string) {
				t.Helper()
				if got := name(t, address, path); got != want {
					t.Errorf("%s is called %q, want %q", path, got, want)
				}
			}
			for _, c := range common {
				check(c.path, c.name)
			}
			check("/files/a/b/17", "GET "+c.files)
			check("/static/site.css", "GET "+c.static)
		})
	}
}

// The callee's name for a call is also a selector of it.
func TestFaultsSelectCallsByTheirTemplates(t *testing.T) {
	app, _ := build(t, "app")
	address := run(t, app, "mux")
	plan := []faultloom.Fault{{Kind: wire.Status, Arg: 503, Selector: faultloom.Selector{Call: "GET /product/{id}"}}}
	for _, c := range []struct {
		plan   []faultloom.Fault
		status int
	}{{nil, 200}, {plan, 503}, {nil, 200}} {
		ctx, r := suite.Begin(t, faultloom.Options{Plan: c.plan})
		resp, _, err := suite.Get(ctx, suite.HTTPClient(t), "http://"+address+"/product/OLJCESPC7Z")
		if err != nil || resp.StatusCode != c.status {
			t.Errorf("%v: %v %v", c.plan, resp, err)
		}
		suite.End(t, r)
	}
}

const muxApp = `package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"

	"github.com/gorilla/mux"
)

func main() {
	m := mux.NewRouter()
	m.HandleFunc("/product/{id}", func(http.ResponseWriter, *http.Request) {})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(l.Addr())
	go func() { io.Copy(io.Discard, os.Stdin); os.Exit(0) }()
	http.Serve(l, m)
}
`

func TestRoutersOfAllOriginsAreHooked(t *testing.T) {
	sum, err := os.ReadFile("go.sum")
	if err != nil {
		t.Fatal(err)
	}
	cached, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/gorilla/mux").Output()
	if err != nil {
		t.Fatal(err)
	}
	copyRouter := func(dir string) {
		if err := os.CopyFS(filepath.Join(dir, "mux"), os.DirFS(strings.TrimSpace(string(cached)))); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		origin, more string // lines of go.mod
		prepare      func(dir string)
		environment  []string
		name, output string
	}{
		{"module cache", "", func(string) {}, nil, "GET /product/{id}", ""},
		{"module cache, -mod=mod", "", func(string) {}, []string{"GOFLAGS=-mod=mod"}, "GET /product/{id}", ""},
		{"module cache, -mod=mod, gRPC", "require google.golang.org/grpc v1.67.3\n", func(dir string) {
			write(t, filepath.Join(dir, "grpc.go"), "package main\n\nimport _ \"google.golang.org/grpc\"\n")
			cmd := exec.Command("go", "mod", "tidy") // marks protobuf as indirect, but the SDK imports it
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatal(string(out))
			}
		}, []string{"GOFLAGS=-mod=mod"}, "GET /product/{id}", ""},
		{"vendored", "", func(dir string) {
			cmd := exec.Command("go", "mod", "vendor")
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatal(string(out))
			}
		}, nil, "GET /product/{id}", ""},
		{"workspace", "", func(dir string) {
			write(t, filepath.Join(dir, "go.work"), "go 1.24\n\nuse .\n")
		}, []string{"GOWORK=", "GOFLAGS="}, "GET /product/{id}", ""},
		{"folder", "replace github.com/gorilla/mux => ./mux\n", copyRouter, nil, "GET /product/{id}", ""},
		{"fork", "replace github.com/gorilla/mux => github.com/gorilla/mux v1.8.1\n", func(string) {}, nil, "GET /product/OLJ",
			"github.com/gorilla/mux: go.mod replaces it by another module; calls are named by their paths"},
		{"unknown source", "replace github.com/gorilla/mux => ./mux\n", func(dir string) {
			copyRouter(dir)
			file := filepath.Join(dir, "mux", "mux.go")
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			write(t, file, strings.Replace(string(text), "handler.ServeHTTP(w, req)\n", "h := handler\n\th.ServeHTTP(w, req)\n", 1))
		}, nil, "GET /product/OLJ", "github.com/gorilla/mux: its source is not as expected; calls are named by their paths"},
	} {
		t.Run(c.origin, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "go.mod"), "module example.com/shop\n\ngo 1.24\n\nrequire github.com/gorilla/mux v1.8.1\n"+c.more)
			write(t, filepath.Join(dir, "go.sum"), string(sum))
			write(t, filepath.Join(dir, "main.go"), muxApp)
			c.prepare(dir)
			before := contents(t, dir)
			app, output := build(t, dir, c.environment...)
			if !maps.Equal(contents(t, dir), before) {
				t.Error("the program's files have changed")
			}
			if !strings.Contains(output, c.output) || (output != "") != (c.output != "") {
				t.Errorf("%q", output)
			}
			if got := name(t, run(t, app, ""), "/product/OLJ"); got != c.name {
				t.Errorf("%q", got)
			}
		})
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	os.Chmod(file, 0o644) // a copy of a file in the module cache is read-only
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// contents returns all files below a folder.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		files[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
