package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"debug/elf"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	faultloom "faultloom.dev/go"
	"faultloom.dev/go/internal/suite"
	"faultloom.dev/go/message/wire"
)

// wrapper is the built command. Its overlays go to a separate cache folder.
var wrapper string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "faultloom-go-test-")
	if err != nil {
		panic(err)
	}
	wrapper = filepath.Join(dir, "faultloom-go")
	if out, err := exec.Command("go", "build", "-o", wrapper, ".").CombinedOutput(); err != nil {
		panic(string(out))
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// command returns a command that runs the wrapper in dir, with the usual build cache but a separate folder for
// overlays.
func command(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	cache, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(wrapper, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOCACHE="+strings.TrimSpace(string(cache)), "XDG_CACHE_HOME="+filepath.Join(filepath.Dir(wrapper), "cache"),
		"GOFLAGS=-mod=readonly", "GOPROXY=off", "GOWORK=")
	return cmd
}

const httpApp = `package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
)

func main() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	http.HandleFunc("/page/{id}", func(w http.ResponseWriter, r *http.Request) {
		req, _ := http.NewRequestWithContext(r.Context(), "GET", "http://"+l.Addr().String()+"/item", nil)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			http.Error(w, err.Error(), 502)
			return
		}
		defer resp.Body.Close()
		io.Copy(w, resp.Body)
	})
	http.HandleFunc("/item", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "hello") })
	fmt.Println(l.Addr())
	go func() { io.Copy(io.Discard, os.Stdin); os.Exit(0) }()
	http.Serve(l, nil)
}
`

// grpcApp serves HTTP requests by calling itself over gRPC.
const grpcApp = `package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	health_v1 "google.golang.org/grpc/health/grpc_health_v1"
)

func main() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	s := grpc.NewServer()
	health_v1.RegisterHealthServer(s, health.NewServer())
	go s.Serve(l)
	cc, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		panic(err)
	}
	h, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(h.Addr())
	go func() { io.Copy(io.Discard, os.Stdin); os.Exit(0) }()
	http.Serve(h, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out, err := health_v1.NewHealthClient(cc).Check(r.Context(), &health_v1.HealthCheckRequest{})
		fmt.Fprint(w, out.GetStatus(), err)
	}))
}
`

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// grpcModule returns a go.mod and go.sum with the same grpc as the SDK's.
func grpcModule(t *testing.T, module string) map[string]string {
	t.Helper()
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	sum, err := os.ReadFile("../../go.sum")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(mod), "module faultloom.dev/go", "module "+module, 1)
	return map[string]string{"go.mod": text, "go.sum": string(sum)}
}

// treeDigest returns a digest of all files below dir.
func treeDigest(t *testing.T, dir string) string {
	t.Helper()
	sum := sha256.New()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		fmt.Fprintf(sum, "%s %d ", path, len(text))
		sum.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}

// runApp starts a built program and returns its address. The program ends with the test, at the end of its input.
func runApp(t *testing.T, binary string) string {
	t.Helper()
	return runAppWith(t, binary, os.Stderr, "FAULTLOOM_TRUST="+strings.ReplaceAll(suite.Settings, "\n", ";"))
}

func runAppWith(t *testing.T, binary string, stderr io.Writer, environment ...string) string {
	t.Helper()
	cmd := exec.Command(binary)
	cmd.Env = append(append(os.Environ(), "FAULTLOOM_SERVICE=app"), environment...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stdin.Close(); cmd.Wait() })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// isStatic reports whether a binary needs no loader, so that it runs in images with any libc.
func isStatic(t *testing.T, binary string) bool {
	t.Helper()
	f, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return false
		}
	}
	return true
}

func TestProgramsAreHookedWithoutAChange(t *testing.T) {
	vendor := func(dir string) {
		cmd := exec.Command("go", "mod", "vendor")
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatal(string(out))
		}
	}
	for _, c := range []struct {
		name, target string
		grpc         bool
		prepare      func(dir string)
	}{
		{"plain module", ".", true, func(dir string) {
			write(t, dir, grpcModule(t, "example.com/shop"))
			write(t, dir, map[string]string{"main.go": grpcApp})
		}},
		{"vendored", "./cmd/app", true, func(dir string) {
			write(t, dir, grpcModule(t, "example.com/shop"))
			write(t, dir, map[string]string{"cmd/app/main.go": grpcApp})
			vendor(dir)
		}},
		{"workspace", "./app", true, func(dir string) {
			for name, text := range grpcModule(t, "example.com/app") {
				write(t, dir, map[string]string{"app/" + name: text})
			}
			app := strings.Replace(grpcApp, "func main() {", "func main() {\n\tlib.Hello()", 1)
			write(t, dir, map[string]string{
				"app/main.go": strings.Replace(app, "import (", "import (\n\t\"example.com/lib\"", 1),
				"lib/go.mod":  "module example.com/lib\n\ngo 1.18\n",
				"lib/lib.go":  "package lib\n\nfunc Hello() {}\n",
				"go.work":     "go 1.24.0\n\nuse (\n\t./app\n\t./lib\n)\n",
			})
		}},
		{"static, as for musl images", ".", true, func(dir string) {
			write(t, dir, grpcModule(t, "example.com/shop"))
			write(t, dir, map[string]string{"main.go": grpcApp})
		}},
		{"HTTP only, old language version", ".", false, func(dir string) {
			write(t, dir, map[string]string{"go.mod": "module tiny\n\ngo 1.18\n", "main.go": strings.Replace(httpApp, "/page/{id}", "/page/", 1)})
		}},
		{"HTTP only, list of files", "main.go", false, func(dir string) {
			write(t, dir, map[string]string{"go.mod": "module tiny\n\ngo 1.24\n", "main.go": httpApp})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, binary := t.TempDir(), filepath.Join(t.TempDir(), "app")
			c.prepare(dir)
			before := treeDigest(t, dir)
			// -trimpath makes the build cache independent of the folder
			cmd := command(t, dir, "build", "-trimpath", "-o", binary, c.target)
			if c.name == "vendored" {
				cmd.Env = append(cmd.Env, "GOFLAGS=-mod=vendor")
			}
			if c.name == "workspace" {
				cmd.Env = append(cmd.Env, "GOFLAGS=")
			}
			if c.name == "static, as for musl images" {
				cmd.Env = append(cmd.Env, "CGO_ENABLED=0")
			}
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if strings.HasPrefix(c.name, "static") && !isStatic(t, binary) {
				t.Error("the binary needs a loader")
			}
			if treeDigest(t, dir) != before {
				t.Error("the program's tree was changed")
			}
			if out, _ := exec.Command("go", "version", "-m", binary).Output(); strings.Contains(string(out), "faultloom.dev") || (c.grpc && !strings.Contains(string(out), "google.golang.org/grpc\tv1.67.3")) {
				t.Errorf("dependencies changed:\n%s", out)
			}
			address := runApp(t, binary)
			want, end, call := "SERVING <nil>", "1 failed 14\n", "Check"
			if !c.grpc {
				want, end, call = "hello", "1 failed 14\n", "GET /item"
			}
			for _, plan := range [][]faultloom.Fault{nil, {{Kind: wire.Unavailable, Selector: faultloom.Selector{Caller: "app", Call: call}}}, nil} {
				ctx, r := suite.Begin(t, faultloom.Options{Plan: plan})
				_, body, err := suite.Get(ctx, suite.HTTPClient(t), "http://"+address+"/page/7")
				if err != nil {
					t.Fatal(err)
				}
				formatted := suite.FormatHistory(suite.End(t, r))
				if plan == nil && (body != want || strings.Contains(formatted, "gap") || strings.Count(formatted, "app \"") != 2) {
					t.Errorf("healthy: %q\n%s", body, formatted)
				}
				if plan != nil && (!strings.Contains(body, "connection refused") || !strings.Contains(formatted, "fault 0\n") || !strings.Contains(formatted, end)) {
					t.Errorf("disturbed: %q\n%s", body, formatted)
				}
			}
			if _, body, err := suite.Get(context.Background(), suite.HTTPClient(t), "http://"+address+"/page/7"); err != nil || body != want {
				t.Errorf("untraced: %q %v", body, err)
			}
		})
	}
}

func TestTestsAreHooked(t *testing.T) {
	for _, name := range []string{"app", "app_test"} {
		dir := t.TempDir()
		write(t, dir, map[string]string{"go.mod": "module app\n\ngo 1.24\n", "app.go": "package app\n", "app_test.go": "package " + name + `

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// A hooked server removes a refused envelope before it calls the handler.
func TestHooked(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Faultloom") != "" {
			w.WriteHeader(500)
		}
	}))
	defer s.Close()
	r, _ := http.NewRequest("GET", s.URL, nil)
	r.Header.Set("X-Faultloom", "AQ")
	resp, err := http.DefaultClient.Do(r)
	if err != nil || resp.StatusCode != 200 {
		t.Fatal(resp, err)
	}
}
`})
		for _, what := range [][]string{{"./..."}, {"app.go", "app_test.go"}} {
			cmd := command(t, dir, append([]string{"test", "-count=1"}, what...)...)
			cmd.Env = append(cmd.Env, "FAULTLOOM_TRUST=environment demo")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s, %s: %v\n%s", name, what, err, out)
			}
		}
	}
}
