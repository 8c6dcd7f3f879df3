// Package status writes the status file that `faultloom doctor` reads: the SDK's version, whether it has keys, and
// which libraries it has hooked. A folder that cannot be written is ignored.
package status

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"faultloom.dev/go/message/scope"
)

// Version of this SDK.
const Version = "0.1.0"

// Library is a library that the SDK has hooked or refused.
type Library struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	State   string `json:"state"` // "hooked" or "refused"
	Reason  string `json:"reason"`
}

type file struct {
	Service   string    `json:"service"`
	PID       int       `json:"pid"`
	SDK       string    `json:"sdk"`
	Version   string    `json:"version"`
	Runtime   string    `json:"runtime"`
	Trust     string    `json:"trust"`
	Libraries []Library `json:"libraries"`
}

var (
	mu        sync.Mutex
	libraries = []Library{}
)

// Hooked records in the status file that a library is hooked.
func Hooked(name, version string) { add(Library{name, version, "hooked", ""}) }

// Refused records in the status file that a library is not hooked.
func Refused(name, version, reason string) { add(Library{name, version, "refused", reason}) }

func add(l Library) {
	folder := os.Getenv("FAULTLOOM_STATUS")
	if folder == "" {
		return
	}
	mu.Lock()
	defer mu.Unlock()
	libraries = append(libraries, l)
	_ = write(folder, scope.ThisProcess())
}

func write(folder string, p *scope.Process) error {
	f := file{Service: p.Service, PID: os.Getpid(), SDK: "go", Version: Version, Runtime: runtime.Version(), Trust: p.Receiver.State(), Libraries: libraries}
	text, err := json.Marshal(f)
	if err != nil {
		return err
	}
	path := filepath.Join(folder, fmt.Sprintf("%s.%d.json", fileName(p.Service), f.PID))
	if err := os.WriteFile(path+".new", append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func fileName(service string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x80 && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r)) {
			return r
		}
		return '_'
	}, service)
}
