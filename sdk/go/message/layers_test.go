package message

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "faultloom.dev/go"

// By package, the packages that it may import. The compiler refuses cycles, but not a wrong direction.
var allowed = map[string][]string{
	"wire":              {},
	"trust":             {"wire"},
	"entry":             {"wire"},
	"entry/exporttls":   {"entry"},
	"scope":             {"wire", "trust", "entry"},
	"entry/status":      {"scope"},
	"hooks/faults":      {"wire", "scope"},
	"hooks/grpchook":    {"wire", "scope", "entry/status", "hooks/faults"},
	"hooks/httphook":    {"wire", "scope", "hooks/faults"},
	"hooks/install":     {"trust", "entry/status", "hooks/httphook"},
	"hooks/installgrpc": {"trust", "entry/status", "hooks/grpchook"},

	"hooks/installgoroutine": {"scope"},
	"hooks/contextonly":      {"entry/status"},
}

// eachSource calls f for each file of the packages, without tests.
func eachSource(t *testing.T, f func(file, text string)) {
	t.Helper()
	err := fs.WalkDir(Sources, ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(file, "_test.go") {
			return err
		}
		text, err := Sources.ReadFile(file)
		f(file, string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestPackagesImportInOneDirection(t *testing.T) {
	found := map[string]bool{}
	eachSource(t, func(file, text string) {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		folder := path.Dir(file)
		found[folder] = true
		may, known := allowed[folder]
		if !known {
			t.Errorf("%s: the layer of this package is not listed", folder)
		}
		for _, spec := range parsed.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value)
			own, inMessage := strings.CutPrefix(imported, module+"/message/")
			inSDK := imported == module || strings.HasPrefix(imported, module+"/")
			if inSDK && (!inMessage || !slices.Contains(may, own)) {
				t.Errorf("%s imports %s", file, imported)
			}
		}
	})
	if len(found) != len(allowed) {
		t.Errorf("%d packages have sources, %d are listed", len(found), len(allowed))
	}
}

func TestOnlyTheDispatcherNamesKindsOfFaults(t *testing.T) {
	kinds := regexp.MustCompile(`\bwire\.(Unavailable|Status|Deadline|Reset|Delay|Hang|LostReply|EmptyReply|CorruptReply)\b`)
	var naming []string
	eachSource(t, func(file, text string) {
		if kinds.MatchString(text) {
			naming = append(naming, file)
		}
	})
	if !slices.Equal(naming, []string{"hooks/faults/faults.go"}) {
		t.Errorf("kinds are named in %v", naming)
	}
}
