package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestUnsupportedProgramsAreRefused(t *testing.T) {
	app := map[string]string{"go.mod": "module tiny\n\ngo 1.24\n", "main.go": "package main\n\nfunc main() {}\n"}
	with := func(more map[string]string) map[string]string {
		files := map[string]string{}
		for k, v := range app {
			files[k] = v
		}
		for k, v := range more {
			files[k] = v
		}
		return files
	}
	for _, c := range []struct {
		name   string
		files  map[string]string
		args   []string
		code   int
		output string
	}{
		{"no command", app, nil, 2, "usage"},
		{"own overlay", app, []string{"build", "-overlay=x.json"}, 2, "-overlay"},
		{"other module", app, []string{"run", "example.com/x@latest"}, 2, "another module"},
		{"old grpc", with(map[string]string{
			"go.mod":          "module tiny\n\ngo 1.24\n\nrequire google.golang.org/grpc v1.60.0\n\nreplace google.golang.org/grpc => ./grpc\n",
			"main.go":         "package main\n\nimport _ \"google.golang.org/grpc\"\n\nfunc main() {}\n",
			"grpc/go.mod":     "module google.golang.org/grpc\n\ngo 1.24\n",
			"grpc/version.go": "package grpc\n\nconst Version = \"1.60.0\"\n",
		}), []string{"build"}, 3, "uses google.golang.org/grpc 1.60.0"},
		{"name taken", with(map[string]string{"zz_faultloom.go": "package main\n"}), []string{"build"}, 2, "zz_faultloom.go exists"},
		{"go's own complaint", app, []string{"build", "./none"}, 1, "none"},
		{"does not compile", with(map[string]string{"main.go": "package main\n\nfunc main() { x }\n"}), []string{"build"}, 1, "undefined: x"},
		{"another subcommand", app, []string{"list", "."}, 0, "tiny"},
		{"vet", app, []string{"vet", "./..."}, 0, ""},
		{"exit code", with(map[string]string{"main.go": "package main\n\nimport \"os\"\n\nfunc main() { os.Exit(len(os.Args)) }\n"}), []string{"run", ".", "-overlay", "x@y"}, 1, "exit status 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, c.files)
			out, err := command(t, dir, c.args...).CombinedOutput()
			code := 0
			if exit, ok := err.(*exec.ExitError); ok {
				code = exit.ExitCode()
			}
			if code != c.code || !strings.Contains(string(out), c.output) {
				t.Errorf("exit code %d, want %d, and %q in\n%s", code, c.code, c.output, out)
			}
		})
	}
}

func TestUnknownToolchainIsRefused(t *testing.T) {
	root := t.TempDir()
	write(t, root, map[string]string{"src/net/http/server.go": "package http\n\nimport _ \"unsafe\"\n\n// nothing is where it was\n"})
	_, _, err := patches[0].apply(environment{GOROOT: root, GOVERSION: "go9.9"})
	if err == nil || !strings.Contains(err.Error(), "net/http/server.go of go9.9") || !strings.Contains(err.Error(), "faultloom.dev/go/auto") {
		t.Error(err)
	}
	anchor := patches[0].insertions[0].anchor
	write(t, root, map[string]string{"src/net/http/server.go": "package http\n\nimport _ \"unsafe\"\n" + anchor + anchor})
	if _, _, err = patches[0].apply(environment{GOROOT: root}); err == nil || !strings.Contains(err.Error(), "2 times") {
		t.Error(err)
	}
}

// Without the runtime's patches, calls belong to requests by their contexts only.
func TestUnknownRuntimeIsLeftAsItIs(t *testing.T) {
	known, err := goEnv()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	if !applyRuntime(known, files) || len(files) != len(runtimePatches) {
		t.Errorf("%s: %d files are patched", known.GOVERSION, len(files))
	}
	for _, p := range runtimePatches {
		for _, in := range p.insertions {
			for _, anchor := range []string{in.anchor, in.after} {
				if anchor == "" {
					continue
				}
				root, unknown := t.TempDir(), map[string][]byte{}
				for _, p := range runtimePatches {
					text, err := os.ReadFile(filepath.Join(known.GOROOT, "src", p.file))
					if err != nil {
						t.Fatal(err)
					}
					write(t, root, map[string]string{"src/" + p.file: strings.ReplaceAll(string(text), anchor, "\n// it was here\n")})
				}
				if applyRuntime(environment{GOROOT: root}, unknown) || len(unknown) != 0 {
					t.Errorf("%s is patched without %q", p.file, anchor)
				}
			}
		}
	}
}

func TestEqualOverlaysShareOneFolder(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	files := map[string][]byte{"/a/b.go": []byte("package a\n")}
	one, err := writeOverlay(files)
	if err != nil || one.temporary {
		t.Fatal(one, err)
	}
	two, err := writeOverlay(files)
	if err != nil || two.json != one.json {
		t.Error("not in one folder", err)
	}
	// without a cache folder the overlay is temporary, and is removed
	blocked := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_CACHE_HOME", blocked)
	three, err := writeOverlay(files)
	if err != nil || !three.temporary {
		t.Fatal(three, err)
	}
	three.remove()
	if _, err := os.Stat(three.path); !os.IsNotExist(err) {
		t.Error("still there", err)
	}
}

func TestCommandLinesAreParsed(t *testing.T) {
	for _, c := range []struct {
		args []string
		want invocation
	}{
		{[]string{"build", "-o", "x", "-race", "./a", "./b"}, invocation{command: "build", flags: []string{"-o", "x", "-race"}, packages: []string{"./a", "./b"}, listFlags: []string{"-race"}}},
		{[]string{"run", "-tags", "a,b", ".", "-o", "x.go"}, invocation{command: "run", flags: []string{"-tags", "a,b"}, packages: []string{"."}, trailing: []string{"-o", "x.go"}, listFlags: []string{"-tags", "a,b"}}},
		{[]string{"run", "a.go", "b.go", "c"}, invocation{command: "run", packages: []string{"a.go", "b.go"}, trailing: []string{"c"}}},
		{[]string{"test", "./...", "-run", "X", "-v", "-args", "-y", "z"}, invocation{command: "test", flags: []string{"-run", "X", "-v"}, packages: []string{"./..."}, trailing: []string{"-args", "-y", "z"}}},
	} {
		c.want.builds = true
		if got, err := parseArgs(c.args); err != nil || !reflect.DeepEqual(*got, c.want) {
			t.Errorf("%v: %+v, %v", c.args, got, err)
		}
	}
}
