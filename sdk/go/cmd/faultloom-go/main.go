// Command faultloom-go runs go and adds the SDK to the program that is built:
//
//	faultloom-go build|install|run|test [flags and packages as for go]
//
// It passes an overlay to go. In this one build, net/http and common routers have hooks, the SDK is part of the
// program's own module (in internal/_faultloom, which exists only in the overlay), and each main package, or each
// tested package, imports it. No file of the program changes, and neither do go.mod, go.sum, vendored trees or the
// versions of dependencies. Other go subcommands run unchanged.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

func main() {
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "faultloom-go:", err)
	}
	os.Exit(code)
}

// Exit codes for an invalid command line and for an unsuitable environment. Otherwise the exit code is go's.
const (
	exitUsage       = 2
	exitEnvironment = 3
)

// refusal is the reason why no build is attempted.
type refusal struct {
	code int
	text string
}

func (r refusal) Error() string { return r.text }

func refuse(code int, format string, args ...any) error {
	return refusal{code, fmt.Sprintf(format, args...)}
}

func run(args []string) (int, error) {
	if len(args) == 0 {
		return exitUsage, errors.New("usage: faultloom-go build|install|run|test [as for go]")
	}
	inv, err := parseArgs(args)
	if err == nil && !inv.builds {
		return runGo(args)
	}
	var dir *overlayDir
	if err == nil {
		dir, err = prepareOverlay(inv)
	}
	if err != nil {
		var r refusal
		var exit *exec.ExitError
		switch {
		case errors.As(err, &r):
			return r.code, err
		case errors.As(err, &exit): // go has printed the reason
			return exit.ExitCode(), nil
		}
		return exitEnvironment, err
	}
	defer dir.remove()
	return runGo(inv.goArgs(dir))
}

// prepareOverlay writes the overlay for the packages to build.
func prepareOverlay(inv *invocation) (*overlayDir, error) {
	env, err := goEnv()
	if err != nil {
		return nil, err
	}
	packages, err := listPackages(inv)
	if err != nil {
		return nil, err
	}
	files, err := overlayFiles(env, inv, packages)
	if err != nil {
		return nil, err
	}
	return writeOverlay(files)
}

// runGo runs go with the same streams, forwards signals, and returns its exit code.
func runGo(args []string) (int, error) {
	cmd := exec.Command("go", args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		return exitEnvironment, err
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	for {
		select {
		case s := <-signals:
			_ = cmd.Process.Signal(s)
		case err := <-exited:
			if code := cmd.ProcessState.ExitCode(); code >= 0 {
				return code, nil
			}
			if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
				return 128 + int(status.Signal()), nil
			}
			return 1, err
		}
	}
}
