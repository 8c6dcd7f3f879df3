package suite

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// BuildApp builds the program in a folder with the wrapper, into the folder dir. It returns the program and the
// wrapper's output.
func BuildApp(dir, folder string, environment ...string) (app, output string, err error) {
	wrapper, app := filepath.Join(dir, "faultloom-go"), filepath.Join(dir, "app")
	if out, err := exec.Command("go", "build", "-o", wrapper, "faultloom.dev/go/cmd/faultloom-go").CombinedOutput(); err != nil {
		return "", "", fmt.Errorf("%w\n%s", err, out)
	}
	cache, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		return "", "", err
	}
	// the usual build cache, and a separate folder for overlays
	cmd := exec.Command(wrapper, "build", "-trimpath", "-o", app, ".")
	cmd.Dir, cmd.Env = folder, append(append(os.Environ(), "GOCACHE="+strings.TrimSpace(string(cache)), "XDG_CACHE_HOME="+dir), environment...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", "", fmt.Errorf("%w\n%s", err, out)
	}
	return app, string(out), nil
}

// RunApp starts a program and returns its first line. It ends with the test, at the end of its input.
func RunApp(t *testing.T, app string, environment []string, arguments ...string) string {
	t.Helper()
	cmd := exec.Command(app, arguments...)
	cmd.Env = append(os.Environ(), environment...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stdin.Close(); cmd.Wait() })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// AppEnvironment has the trust settings of Settings and the name of a service.
func AppEnvironment(service string) []string {
	return []string{"FAULTLOOM_SERVICE=" + service, "FAULTLOOM_TRUST=" + strings.ReplaceAll(Settings, "\n", ";")}
}
