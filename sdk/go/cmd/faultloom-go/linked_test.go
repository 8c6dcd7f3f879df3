package main

import (
	"debug/elf"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"faultloom.dev/go/internal/logbuffer"
	"faultloom.dev/go/internal/suite"
)

// linkedFunctions reports which of the named functions are in a binary.
func linkedFunctions(t *testing.T, binary string, names []string) []bool {
	t.Helper()
	f, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	found := make([]bool, len(names))
	for _, s := range symbols {
		for i, name := range names {
			found[i] = found[i] || strings.HasSuffix(s.Name, name)
		}
	}
	return found
}

// grpcServer returns a program that only serves gRPC.
func grpcServer(t *testing.T, imports, options string) map[string]string {
	t.Helper()
	files := grpcModule(t, "example.com/shop")
	files["main.go"] = `package main

import (
	"fmt"
	"io"
	"net"
	"os"

	` + imports + `
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	health_v1 "google.golang.org/grpc/health/grpc_health_v1"
)

func main() {
	s := grpc.NewServer(` + options + `)
	health_v1.RegisterHealthServer(s, health.NewServer())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(l.Addr())
	go func() { io.Copy(io.Discard, os.Stdin); os.Exit(0) }()
	s.Serve(l)
}
`
	return files
}

// Code that never runs slows down a program: bench/README.md.
func TestOnlyUsedHooksAreLinked(t *testing.T) {
	grpcOnly := grpcServer(t, "", "")
	locked := grpcServer(t, `"google.golang.org/grpc/credentials"`, `grpc.Creds(credentials.NewTLS(nil))`)
	provided := grpcServer(t, `_ "google.golang.org/grpc/credentials/tls/certprovider"`, "")
	open := grpcServer(t, `"google.golang.org/grpc/credentials/insecure"`, `grpc.Creds(insecure.NewCredentials())`)
	names := []string{"net/http.(*Transport).roundTrip", "/httphook.RoundTrip", "/httphook.Serve", "/entry.(*Exporter).send", "crypto/tls.Client"}
	program := func(body string) map[string]string {
		return map[string]string{"go.mod": "module tiny\n\ngo 1.24\n", "main.go": body}
	}
	for name, c := range map[string]struct {
		files map[string]string
		want  []bool
	}{
		"gRPC":        {grpcOnly, []bool{false, false, false, true, false}},
		"gRPC, TLS":   {locked, []bool{false, false, false, true, true}},
		"gRPC, certs": {provided, []bool{false, false, false, true, true}},
		"gRPC, open":  {open, []bool{false, false, false, true, false}},
		"HTTP":        {program(httpApp), []bool{true, true, true, true, true}},
		"HTTP client": {program("package main\n\nimport \"net/http\"\n\nfunc main() { http.Get(\"\") }\n"), []bool{true, true, false, false, true}},
		"HTTP server": {program("package main\n\nimport \"net/http\"\n\nfunc main() { http.ListenAndServe(\"\", nil) }\n"), []bool{false, false, true, true, true}},
		"neither":     {program("package main\n\nfunc main() {}\n"), []bool{false, false, false, false, false}},
	} {
		dir, binary := t.TempDir(), filepath.Join(t.TempDir(), "app")
		write(t, dir, c.files)
		if out, err := command(t, dir, "build", "-trimpath", "-o", binary).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
			continue
		}
		if got := linkedFunctions(t, binary, names); !slices.Equal(got, c.want) {
			t.Errorf("%s has %v of %v", name, got, names)
		}
	}
}

// A program without TLS reports that it cannot export to https://, unless it was built for that.
func TestTLSExportIsLinkedOnRequest(t *testing.T) {
	const collector = "FAULTLOOM_EXPORT=https://collector.invalid/v1/traces"
	dir := t.TempDir()
	write(t, dir, grpcServer(t, "", ""))
	for _, requested := range []bool{false, true} {
		binary := filepath.Join(t.TempDir(), "app")
		build := command(t, dir, "build", "-o", binary)
		if requested {
			build.Env = append(build.Env, collector)
		}
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for _, c := range []struct {
			export string
			fails  bool
		}{{collector, !requested}, {"FAULTLOOM_EXPORT=http://collector.invalid/v1/traces", false}} {
			stderr := &logbuffer.Buffer{}
			t.Run(c.export, func(t *testing.T) { // which waits until the program has ended
				// the status file makes the program read its settings at its start
				runAppWith(t, binary, stderr, "FAULTLOOM_TRUST="+strings.ReplaceAll(suite.Settings, "\n", ";"), "FAULTLOOM_STATUS="+t.TempDir(), c.export)
			})
			if fails := strings.Contains(stderr.String(), "built without TLS"); fails != c.fails {
				t.Errorf("requested when it was built: %v, %s: %q", requested, c.export, stderr)
			}
		}
	}
}
