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

// environment is a part of go env. GOROOT belongs to the toolchain that the module selects.
type environment struct{ GOROOT, GOVERSION, GOMOD, GOMODCACHE, GOFLAGS string }

func goEnv() (e environment, err error) {
	out, err := goOutput("env", "-json", "GOROOT", "GOVERSION", "GOMOD", "GOMODCACHE", "GOFLAGS")
	if err != nil {
		return e, err
	}
	return e, json.Unmarshal(out, &e)
}

func goOutput(args ...string) ([]byte, error) {
	cmd := exec.Command("go", args...)
	cmd.Stderr = os.Stderr
	return cmd.Output()
}

// goPackage is the output of go list for one package.
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

func listPackages(inv *invocation) ([]goPackage, error) {
	args := append([]string{"list", listFields}, inv.listFlags...)
	out, err := goOutput(append(args, inv.packages...)...)
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
		// go list reports no module for a list of files; it is that of their folder
		dir := filepath.Dir(inv.packages[0])
		if !filepath.IsAbs(dir) {
			dir = "./" + dir
		}
		out, err := goOutput(append(append([]string{"list", "-find", "-e", "-json=Module"}, inv.listFlags...), dir)...)
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

const grpcImportPath = "google.golang.org/grpc"

func (p *goPackage) dependsOn(path string) bool {
	for _, list := range [][]string{p.Deps, p.TestImports, p.XTestImports} {
		for _, d := range list {
			if d == path {
				return true
			}
		}
	}
	return false
}

// plaintextCredentials are gRPC's credentials without TLS.
var plaintextCredentials = []string{grpcImportPath + "/credentials/insecure", grpcImportPath + "/credentials/local"}

// usesTLS reports whether a program uses TLS itself or exports to https://. It checks the imports of all packages
// except gRPC's own: gRPC always imports TLS, but the linker removes it from programs that create no TLS credentials.
func usesTLS(inv *invocation, p *goPackage) (bool, error) {
	if inv.command == "test" || strings.HasPrefix(strings.ToLower(os.Getenv("FAULTLOOM_EXPORT")), "https:") {
		return true, nil
	}
	args := append([]string{"list", "-deps", "-f", `{{if not .Standard}}{{.ImportPath}} {{join .Imports " "}}{{end}}`}, inv.listFlags...)
	program := []string{p.ImportPath}
	if p.ImportPath == "command-line-arguments" {
		program = inv.packages
	}
	out, err := goOutput(append(args, program...)...)
	if err != nil {
		return false, err
	}
	for _, line := range strings.Split(string(out), "\n") {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0]+"/", grpcImportPath+"/") || strings.HasPrefix(words[0], "golang.org/x/net/") {
			continue
		}
		for _, imported := range words[1:] {
			credentials := strings.HasPrefix(imported+"/", grpcImportPath+"/credentials/") && !slices.Contains(plaintextCredentials, imported)
			if imported == "crypto/tls" || imported == "net/http" || credentials {
				return true, nil
			}
		}
	}
	return false, nil
}

var versionConst = regexp.MustCompile(`const Version = "(\d+)\.(\d+)\.(\d+)[^"]*"`)

// grpcVersion reads the version constant in grpc's source, which is also right for vendored trees, replacements and
// workspaces.
func grpcVersion(inv *invocation) (text string, old bool, err error) {
	out, err := goOutput(append(append([]string{"list", "-find", "-f", "{{.Dir}}"}, inv.listFlags...), grpcImportPath)...)
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
