package main

import (
	"archive/zip"
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	faultloom "faultloom.dev/go"
	"faultloom.dev/go/internal/suite"
	"faultloom.dev/go/message/entry/status"
	"faultloom.dev/go/message/wire"
)

// publishModule packs this module as a module proxy serves it, and returns the proxy's folder.
func publishModule(t *testing.T) (proxy, version string) {
	t.Helper()
	proxy, version = t.TempDir(), "v"+status.Version
	dir := filepath.Join(proxy, "faultloom.dev", "go", "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, map[string]string{"list": version + "\n", version + ".info": `{"Version":"` + version + `"}`, version + ".mod": string(mod)})
	out, err := os.Create(filepath.Join(dir, version+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(out)
	root := "../.."
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		if d.IsDir() {
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil {
				return fs.SkipDir // a module of its own
			}
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, path)
		w, err := z.Create("faultloom.dev/go@" + version + "/" + filepath.ToSlash(name))
		if err == nil {
			_, err = w.Write(text)
		}
		return err
	})
	if err == nil {
		err = z.Close()
	}
	if err == nil {
		err = out.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return proxy, version
}

// A module that was downloaded from a proxy provides the one-line import and the wrapper.
func TestPublishedModuleWorks(t *testing.T) {
	proxy, version := publishModule(t)
	output, err := exec.Command("go", "env", "GOMODCACHE", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	folders := strings.Fields(string(output))
	bin := t.TempDir()
	environment := append(os.Environ(), "GOPROXY=file://"+proxy+",file://"+filepath.Join(folders[0], "cache", "download"), "GOSUMDB=off", "GOMODCACHE="+t.TempDir(),
		"GOCACHE="+folders[1], "GOFLAGS=-mod=mod -modcacherw -trimpath", "GOBIN="+bin, "GOWORK=off", "GOTOOLCHAIN=local")
	run := func(dir, name string, args ...string) {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir, cmd.Env = dir, environment
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
	}
	check := func(binary string) {
		t.Helper()
		address := runApp(t, binary)
		for _, plan := range [][]faultloom.Fault{nil, {{Kind: wire.Unavailable, Selector: faultloom.Selector{Call: "Check"}}}, nil} {
			ctx, r := suite.Begin(t, faultloom.Options{Plan: plan})
			_, body, err := suite.Get(ctx, suite.HTTPClient(t), "http://"+address+"/page/7")
			if err != nil {
				t.Fatal(err)
			}
			formatted := suite.FormatHistory(suite.End(t, r))
			if healthy := body == "SERVING <nil>" && strings.Count(formatted, "app \"") == 2 && !strings.Contains(formatted, "gap"); healthy != (plan == nil) {
				t.Errorf("%v: %q\n%s", plan, body, formatted)
			}
		}
		if _, body, err := suite.Get(context.Background(), suite.HTTPClient(t), "http://"+address+"/"); err != nil || body != "SERVING <nil>" {
			t.Errorf("untraced: %q %v", body, err)
		}
	}
	require := grpcModule(t, "example.com/shop")["go.mod"]

	dir := t.TempDir()
	one := strings.Replace(grpcApp, "import (", "import (\n\tfaultloom \"faultloom.dev/go\"\n\t_ \"faultloom.dev/go/auto\"", 1)
	one = strings.Replace(one, "http.Serve(h, http.HandlerFunc(", "http.Serve(h, faultloom.Handler(http.HandlerFunc(", 1)
	one = strings.Replace(one, "\t}))\n}", "\t})))\n}", 1)
	write(t, dir, map[string]string{"go.mod": require + "\nrequire faultloom.dev/go " + version + "\n", "main.go": one})
	run(dir, "go", "build", "-o", filepath.Join(bin, "one"), ".")
	check(filepath.Join(bin, "one"))

	run(dir, "go", "install", "faultloom.dev/go/cmd/faultloom-go@"+version)
	dir = t.TempDir()
	write(t, dir, map[string]string{"go.mod": require, "main.go": grpcApp})
	run(dir, filepath.Join(bin, "faultloom-go"), "build", "-o", filepath.Join(bin, "zero"), ".")
	check(filepath.Join(bin, "zero"))
}
