package main

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	faultloom "faultloom.dev/go"
	"faultloom.dev/go/internal/logbuffer"
	"faultloom.dev/go/internal/suite"
)

func buildHTTPApp(t *testing.T) string {
	t.Helper()
	dir, binary := t.TempDir(), filepath.Join(t.TempDir(), "app")
	write(t, dir, map[string]string{"go.mod": "module tiny\n\ngo 1.24\n", "main.go": httpApp})
	if out, err := command(t, dir, "build", "-trimpath", "-o", binary).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return binary
}

func TestProgramSamplesRequestsAndExportsThem(t *testing.T) {
	c, stderr := suite.NewCollector(t), &logbuffer.Buffer{}
	address := runAppWith(t, buildHTTPApp(t), stderr, "FAULTLOOM_TRUST="+strings.ReplaceAll(suite.Settings, "\n", ";"), "FAULTLOOM_SAMPLE=1/1", "FAULTLOOM_EXPORT="+c.Endpoint)
	if _, body, err := suite.Get(context.Background(), http.DefaultClient, "http://"+address+"/page/7"); err != nil || body != "hello" {
		t.Fatal(body, err)
	}
	var got []string
	for _, s := range c.Wait(3) {
		_, connected := s.Attributes["faultloom.connect_us"] // the program's first call
		if delete(s.Attributes, "faultloom.connect_us"); connected != (s.Kind == 3) {
			t.Error("a connection was set up:", connected, s)
		}
		got = append(got, s.String())
	}
	want := []string{`app server "GET /page/{id}"`, `app client "GET /item"`, `app server "GET /item"`}
	if !slices.Equal(got, want) || stderr.String() != "" {
		t.Errorf("%q, printed %q", got, stderr)
	}
}

// With wrong keys the program works, its callers record a gap, and one line on standard error gives the reason without
// a key.
func TestWrongKeysOnlyDisableTheSDK(t *testing.T) {
	binary := buildHTTPApp(t)
	other := strings.Repeat("0c", 32)
	missing := filepath.Join(t.TempDir(), "none")
	for _, c := range []struct{ name, environment, output, state string }{
		{"no settings", "FAULTLOOM_TRUST=", "", "no trust settings"},
		{"another key of this id", "FAULTLOOM_TRUST=environment demo;key trace t1 " + other, "faultloom: bad_signature: an envelope was refused", "keys"},
		{"another id", "FAULTLOOM_TRUST=environment demo;key trace t9 " + other, "faultloom: unknown_key: an envelope was refused", "keys"},
		{"another environment", "FAULTLOOM_TRUST=environment prod;key trace t1 " + suite.TraceKey, "faultloom: wrong_environment: an envelope was refused", "keys"},
		{"no key", "FAULTLOOM_TRUST=environment demo", "faultloom: unknown_key: an envelope was refused", "no key in the trust settings"},
		{"half a key", "FAULTLOOM_TRUST=environment demo;key trace t1 " + other[:32], "faultloom: line 2 of the trust settings", "line 2 of the trust settings"},
		{"no file", "FAULTLOOM_TRUST_FILE=" + missing, "faultloom: trust file: ", "trust file: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			stderr, folder := &logbuffer.Buffer{}, t.TempDir()
			address := runAppWith(t, binary, stderr, c.environment, "FAULTLOOM_STATUS="+folder)
			for range 3 {
				ctx, r := suite.Begin(t, faultloom.Options{})
				_, body, err := suite.Get(ctx, suite.HTTPClient(t), "http://"+address+"/page/7")
				if e := suite.End(t, r).Events[1]; err != nil || body != "hello" || !e.Gap || e.Child != nil {
					t.Fatalf("%q %v %+v", body, err, e)
				}
			}
			text := stderr.String()
			if !strings.HasPrefix(text, c.output) || strings.Count(text, "\n") != map[bool]int{true: 0, false: 1}[c.output == ""] || strings.Contains(text, other[:16]) {
				t.Errorf("printed %q", text)
			}
			files, _ := filepath.Glob(filepath.Join(folder, "app.*.json"))
			if len(files) != 1 {
				t.Fatal(files)
			}
			text2, err := os.ReadFile(files[0])
			if err != nil {
				t.Fatal(err)
			}
			var status struct {
				Trust     string
				Libraries []struct{ Name, State, Reason string }
			}
			if err := json.Unmarshal(text2, &status); err != nil || !strings.HasPrefix(status.Trust, c.state) || len(status.Libraries) != 1 || status.Libraries[0].Name != "net/http" {
				t.Errorf("%s %v", text2, err)
			}
			if want := map[bool]string{true: "refused", false: "hooked"}[c.output == ""]; status.Libraries[0].State != want {
				t.Errorf("%s, want %s", text2, want)
			}
		})
	}
}

// Without a writable HOME or cache folder the build works wherever go works. Otherwise the error names the remedy.
func TestUnwritableFolders(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"go.mod": "module tiny\n\ngo 1.24\n", "main.go": httpApp})
	file := filepath.Join(t.TempDir(), "file") // below it nothing can be written, even by root
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cache, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name        string
		environment []string
		code        int
		output      string
	}{
		{"HOME, with GOCACHE elsewhere", []string{"HOME=" + file, "XDG_CACHE_HOME=", "GOCACHE=" + strings.TrimSpace(string(cache))}, 0, ""},
		{"no HOME at all, with GOCACHE elsewhere", []string{"HOME=", "XDG_CACHE_HOME=", "GOCACHE=" + strings.TrimSpace(string(cache))}, 0, ""},
		{"HOME, and no GOCACHE", []string{"HOME=" + file, "XDG_CACHE_HOME=", "GOCACHE="}, 1, "file"},
		{"neither HOME nor temporary folder", []string{"HOME=" + file, "XDG_CACHE_HOME=", "TMPDIR=" + file, "GOCACHE=" + strings.TrimSpace(string(cache))}, 3, "set XDG_CACHE_HOME or TMPDIR"},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := treeDigest(t, dir)
			cmd := command(t, dir, "build", "-trimpath", "-o", filepath.Join(t.TempDir(), "app"))
			cmd.Env = append(append(cmd.Env, "GOENV=off", "GOPATH="+t.TempDir(), "GOTOOLCHAIN=local"), c.environment...)
			out, err := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(string(out), c.output) {
				t.Errorf("exit code %d, want %d, and %q in\n%s%v", code, c.code, c.output, out, err)
			}
			if treeDigest(t, dir) != before {
				t.Error("the program's tree was changed")
			}
		})
	}
}
