package main

import (
	"debug/elf"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// linked tells which of the named functions are in a binary.
func linked(t *testing.T, binary string, names []string) []bool {
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

// Code that never runs makes what does run slower: bench/README.md.
func TestAProgramHasTheHooksOfWhatItUsesOnly(t *testing.T) {
	grpcOnly := grpcModule(t, "example.com/shop")
	grpcOnly["main.go"] = `package main

import (
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	health_v1 "google.golang.org/grpc/health/grpc_health_v1"
)

func main() {
	s := grpc.NewServer()
	health_v1.RegisterHealthServer(s, health.NewServer())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	s.Serve(l)
}
`
	names := []string{"net/http.(*Transport).roundTrip", "/httphook.RoundTrip", "/httphook.Serve", "/export.(*Exporter).send"}
	program := func(body string) map[string]string {
		return map[string]string{"go.mod": "module tiny\n\ngo 1.24\n", "main.go": body}
	}
	for name, c := range map[string]struct {
		files map[string]string
		want  []bool
	}{
		"gRPC":        {grpcOnly, []bool{false, false, false, true}},
		"HTTP":        {program(httpApp), []bool{true, true, true, true}},
		"HTTP client": {program("package main\n\nimport \"net/http\"\n\nfunc main() { http.Get(\"\") }\n"), []bool{true, true, false, false}},
		"HTTP server": {program("package main\n\nimport \"net/http\"\n\nfunc main() { http.ListenAndServe(\"\", nil) }\n"), []bool{false, false, true, true}},
		"neither":     {program("package main\n\nfunc main() {}\n"), []bool{false, false, false, false}},
	} {
		dir, binary := t.TempDir(), filepath.Join(t.TempDir(), "app")
		write(t, dir, c.files)
		if out, err := command(t, dir, "build", "-trimpath", "-o", binary).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
			continue
		}
		if got := linked(t, binary, names); !slices.Equal(got, c.want) {
			t.Errorf("%s has %v of %v", name, got, names)
		}
	}
}
