package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"faultloom.dev/go/message"
)

const (
	sdkModule     = "faultloom.dev/go"
	sdkPath       = sdkModule + "/message"
	overlayFolder = "internal/_faultloom" // below the program's module
	mainFile      = "zz_faultloom.go"
	testFile      = "zz_faultloom_test.go"
)

// overlayFiles maps each path to its contents for this build.
func overlayFiles(env environment, inv *invocation, packages []goPackage) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, p := range patches {
		file, text, err := p.apply(env)
		if err != nil {
			return nil, err
		}
		files[file] = text
	}
	goroutines := "hooks/contextonly"
	if applyRuntime(env, files) {
		goroutines = "hooks/installgoroutine"
	}
	if err := addRouters(files, env, inv, packages); err != nil {
		return nil, err
	}
	grpcChecked := false
	for i := range packages {
		p := &packages[i]
		file, name := mainFile, "main"
		if inv.command == "test" {
			file = testFile
			switch {
			case len(p.TestGoFiles) > 0:
				name = p.Name
			case len(p.XTestGoFiles) > 0:
				name = p.Name + "_test"
			default:
				continue
			}
		} else if p.Name != "main" {
			continue
		}
		if p.Module == nil || !p.Module.Main {
			return nil, refuse(exitUsage, "%s is not a package of the main module: only the program's own module can be hooked", p.ImportPath)
		}
		for _, d := range append(append(p.Deps, p.TestImports...), p.XTestImports...) {
			if strings.HasPrefix(d, sdkModule+"/message/") {
				return nil, refuse(exitUsage, "%s imports %s already: build it with go, or remove that import", p.ImportPath, sdkModule)
			}
		}
		grpc := p.dependsOn(grpcImportPath)
		if grpc && !grpcChecked {
			version, old, err := grpcVersion(inv)
			if err != nil {
				return nil, err
			}
			if old {
				return nil, refuse(exitEnvironment, "%s uses %s %s, which cannot be hooked; 1.66 or later is needed: go get %s@v1.66.3",
					p.ImportPath, grpcImportPath, version, grpcImportPath)
			}
			grpcChecked = true
		}
		if err := addSources(files, p.Module.Dir, p.Module.Path, grpc); err != nil {
			return nil, err
		}
		virtual := filepath.Join(p.Dir, file)
		if _, err := os.Lstat(virtual); err == nil {
			return nil, refuse(exitUsage, "%s exists, but the overlay needs this name", virtual)
		}
		parts := []string{goroutines, "hooks/install"}
		if grpc {
			parts = append(parts, "hooks/installgrpc")
		}
		tls, err := usesTLS(inv, p)
		if err != nil {
			return nil, err
		}
		if tls {
			parts = append(parts, "entry/exporttls")
		}
		files[virtual] = importFile(name, p.Module.Path, parts)
		if len(inv.packages) > 0 && isGoFile(inv.packages[0]) {
			// go requires that all files of the list have the same folder, spelled in the same way
			inv.virtualFiles = append(inv.virtualFiles, filepath.Join(filepath.Dir(inv.packages[0]), file))
		}
	}
	return files, nil
}

// importFile returns the file that imports parts of the SDK into a program.
func importFile(name, module string, parts []string) []byte {
	text := fmt.Sprintf("package %s\n\n", name)
	for _, part := range parts {
		text += fmt.Sprintf("import _ %q\n", module+"/"+overlayFolder+"/"+part)
	}
	return []byte(text)
}

// addSources adds the SDK's sources to a module's internal folder, with import paths of that module.
func addSources(files map[string][]byte, dir, module string, grpc bool) error {
	return fs.WalkDir(message.Sources, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(name, "_test.go") {
			return err
		}
		if folder := path.Dir(name); !grpc && (folder == "hooks/grpchook" || folder == "hooks/installgrpc") {
			return nil
		}
		text, err := fs.ReadFile(message.Sources, name)
		if err != nil {
			return err
		}
		text = bytes.Replace(text, []byte("//go:build faultloom_overlay\n\n"), nil, 1)
		text = bytes.ReplaceAll(text, []byte(`"`+sdkPath+`/`), []byte(`"`+module+"/"+overlayFolder+"/"))
		// this sets the language version of the file, independent of the module's go line
		text = append([]byte("//go:build go1.21\n\n"), text...)
		files[filepath.Join(dir, filepath.FromSlash(overlayFolder), filepath.FromSlash(name))] = text
		return nil
	})
}

// overlayDir is the folder with an overlay's files.
type overlayDir struct {
	path, json string
	temporary  bool
}

func (d *overlayDir) remove() {
	if d.temporary {
		os.RemoveAll(d.path)
	}
}

// writeOverlay writes the overlay into a folder named by its contents, so that Go's build cache works across builds.
func writeOverlay(files map[string][]byte) (*overlayDir, error) {
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	sort.Strings(names)
	sum := sha256.New()
	for _, name := range names {
		fmt.Fprintf(sum, "%d %s %d ", len(name), name, len(files[name]))
		sum.Write(files[name])
	}
	key := hex.EncodeToString(sum.Sum(nil))[:32]
	cache, noCache := os.UserCacheDir()
	if noCache == nil {
		base := filepath.Join(cache, "faultloom", "go")
		d, err := publish(base, key, names, files)
		if err == nil {
			prune(base)
			return d, nil
		}
		noCache = err
	}
	dir, err := os.MkdirTemp("", "faultloom-go-")
	if err != nil {
		return nil, refuse(exitEnvironment, "cannot write the overlay (%v; %v): set XDG_CACHE_HOME or TMPDIR to a writable folder", noCache, err)
	}
	d := &overlayDir{path: dir, json: filepath.Join(dir, "overlay.json"), temporary: true}
	if err := writeFiles(dir, dir, names, files); err != nil {
		d.remove()
		return nil, err
	}
	return d, nil
}

// publish writes a new folder and renames it to its final name, so that concurrent builds never use an incomplete
// overlay.
func publish(base, key string, names []string, files map[string][]byte) (*overlayDir, error) {
	final := filepath.Join(base, key)
	d := &overlayDir{path: final, json: filepath.Join(final, "overlay.json")}
	if _, err := os.Stat(d.json); err == nil {
		now := time.Now()
		_ = os.Chtimes(final, now, now)
		return d, nil
	}
	if err := os.MkdirAll(base, 0o755); err != nil {
		return nil, err
	}
	tmp, err := os.MkdirTemp(base, "new-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	if err := writeFiles(tmp, final, names, files); err != nil {
		return nil, err
	}
	if err := os.Rename(tmp, final); err != nil {
		if _, stat := os.Stat(d.json); stat != nil {
			return nil, err
		}
	}
	return d, nil
}

// writeFiles writes the files and overlay.json into dir. The paths in overlay.json are those below final.
func writeFiles(dir, final string, names []string, files map[string][]byte) error {
	replace := map[string]string{}
	for i, name := range names {
		short := fmt.Sprintf("%02d_%s", i, filepath.Base(name))
		if err := os.WriteFile(filepath.Join(dir, short), files[name], 0o644); err != nil {
			return err
		}
		replace[name] = filepath.Join(final, short)
	}
	text, err := json.MarshalIndent(map[string]any{"Replace": replace}, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "overlay.json"), text, 0o644)
}

// prune removes overlays that were not used for a month.
func prune(base string) {
	entries, _ := os.ReadDir(base)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > 30*24*time.Hour {
			os.RemoveAll(filepath.Join(base, e.Name()))
		}
	}
}
