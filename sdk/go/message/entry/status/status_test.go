package status

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"faultloom.dev/go/message/scope"
	"faultloom.dev/go/message/trust"
)

func TestStatusFileHasLibrariesAndTrustState(t *testing.T) {
	folder := t.TempDir()
	libraries = []Library{{"net/http", "go1.99", "hooked", ""}, {"google.golang.org/grpc", "1.2.3", "refused", "it has moved its hooks"}}
	key := strings.Repeat("0a", 32)
	for i, c := range []struct{ settings, want string }{
		{"environment demo\nkey trace t1 " + key, "keys"},
		{"environment demo", "no key in the trust settings"},
		{"environment demo\n\nnonsense", "line 3 of the trust settings: not one of: environment NAME, key trace|fault ID HEX, faults on|off"},
		{"faults on", "no environment in the trust settings"},
		{"environment demo\nkey trace t1 " + key[1:], "line 2 of the trust settings: a key is 64 hex digits"},
	} {
		path := filepath.Join(t.TempDir(), "trust")
		if err := os.WriteFile(path, []byte(c.settings), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := write(folder, &scope.Process{Service: "a b/ü", Receiver: trust.NewReceiverFromFile(path)}); err != nil {
			t.Fatal(err)
		}
		all, _ := filepath.Glob(filepath.Join(folder, "*"))
		if len(all) != 1 || !strings.HasPrefix(filepath.Base(all[0]), "a_b__.") {
			t.Fatal(i, all)
		}
		text, err := os.ReadFile(all[0])
		if err != nil {
			t.Fatal(err)
		}
		var f file
		if err := json.Unmarshal(text, &f); err != nil || f.Trust != c.want || f.Service != "a b/ü" || f.PID != os.Getpid() || f.SDK != "go" || len(f.Libraries) != 2 || f.Libraries[1] != libraries[1] {
			t.Errorf("%s %v", text, err)
		}
		if strings.Contains(string(text), key[:16]) {
			t.Error("a key was written")
		}
	}
	if got := trust.NewReceiver(nil).State(); got != "no trust settings" {
		t.Error(got)
	}
	if write(filepath.Join(folder, "none"), &scope.Process{Service: "x", Receiver: trust.NewReceiver(nil)}) == nil {
		t.Error("a folder that is not there was written to")
	}
}
