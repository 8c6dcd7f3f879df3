package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// environment is the part of go env that matters. GOROOT is that of the toolchain the module asks for.
type environment struct{ GOROOT, GOVERSION, GOMOD string }

func goEnv() (e environment, err error) {
	out, err := output("env", "-json", "GOROOT", "GOVERSION", "GOMOD")
	if err != nil {
		return e, err
	}
	return e, json.Unmarshal(out, &e)
}

func output(args ...string) ([]byte, error) {
	cmd := exec.Command("go", args...)
	cmd.Stderr = os.Stderr
	return cmd.Output()
}

// goPackage is what go list tells about one package.
type goPackage struct {
	Dir, ImportPath, Name     string
	Standard                  bool
	Deps                      []string
	TestGoFiles, XTestGoFiles []string
	TestImports, XTestImports []string
	Module                    *struct {
		Path, Dir string
		Main      bool
	}
}

const listFields = "-json=Dir,ImportPath,Name,Standard,Deps,TestGoFiles,XTestGoFiles,TestImports,XTestImports,Module"

func list(inv *invocation) ([]goPackage, error) {
	args := append([]string{"list", listFields}, inv.listing...)
	out, err := output(append(args, inv.packages...)...)
	if err != nil {
		return nil, err
	}
	var packages []goPackage
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		packages = append(packages, p)
	}
	if len(packages) == 1 && packages[0].ImportPath == "command-line-arguments" && packages[0].Module == nil {
		// a list of files belongs to the module of their folder
		dir := filepath.Dir(inv.packages[0])
		if !filepath.IsAbs(dir) {
			dir = "./" + dir
		}
		out, err := output(append(append([]string{"list", "-find", "-e", "-json=Module"}, inv.listing...), dir)...)
		if err != nil {
			return nil, err
		}
		var p goPackage
		if err := json.Unmarshal(out, &p); err != nil {
			return nil, err
		}
		packages[0].Module = p.Module
	}
	return packages, nil
}

const grpcPath = "google.golang.org/grpc"

func (p *goPackage) uses(path string) bool {
	for _, list := range [][]string{p.Deps, p.TestImports, p.XTestImports} {
		for _, d := range list {
			if d == path {
				return true
			}
		}
	}
	return false
}

// withoutTLS are gRPC's credentials that encrypt nothing.
var withoutTLS = []string{grpcPath + "/credentials/insecure", grpcPath + "/credentials/local"}

// usesTLS tells whether a program speaks TLS itself, or is to export to https://. It judges by what the sources import:
// gRPC imports TLS always, and the linker leaves it out where nobody makes credentials of it.
func usesTLS(inv *invocation, p *goPackage) (bool, error) {
	if inv.command == "test" || strings.HasPrefix(strings.ToLower(os.Getenv("FAULTLOOM_EXPORT")), "https:") {
		return true, nil
	}
	args := append([]string{"list", "-deps", "-f", `{{if not .Standard}}{{.ImportPath}} {{join .Imports " "}}{{end}}`}, inv.listing...)
	program := []string{p.ImportPath}
	if p.ImportPath == "command-line-arguments" {
		program = inv.packages
	}
	out, err := output(append(args, program...)...)
	if err != nil {
		return false, err
	}
	for _, line := range strings.Split(string(out), "\n") {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0]+"/", grpcPath+"/") || strings.HasPrefix(words[0], "golang.org/x/net/") {
			continue
		}
		for _, imported := range words[1:] {
			credentials := strings.HasPrefix(imported+"/", grpcPath+"/credentials/") && !slices.Contains(withoutTLS, imported)
			if imported == "crypto/tls" || imported == "net/http" || credentials {
				return true, nil
			}
		}
	}
	return false, nil
}

var versionConst = regexp.MustCompile(`const Version = "(\d+)\.(\d+)\.(\d+)[^"]*"`)

// grpcVersion reads grpc's own version constant: that is right for vendored trees, replacements and workspaces alike.
func grpcVersion(inv *invocation) (text string, old bool, err error) {
	out, err := output(append(append([]string{"list", "-find", "-f", "{{.Dir}}"}, inv.listing...), grpcPath)...)
	if err != nil {
		return "", false, err
	}
	file := filepath.Join(strings.TrimSpace(string(out)), "version.go")
	source, err := os.ReadFile(file)
	if err != nil {
		return "", false, err
	}
	m := versionConst.FindSubmatch(source)
	if m == nil {
		return "unknown", true, nil
	}
	major, _ := strconv.Atoi(string(m[1]))
	minor, _ := strconv.Atoi(string(m[2]))
	return string(m[1]) + "." + string(m[2]) + "." + string(m[3]), major < 1 || (major == 1 && minor < 66), nil
}
