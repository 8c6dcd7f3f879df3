// Command faultloom-go is the go command for programs that Faultloom is to trace and to inject faults into:
//
//	faultloom-go build|install|run|test [flags and packages as for go]
//
// It runs go with an overlay: for this one build, net/http has two hooks more, the SDK is part of the program's own module
// (in internal/_faultloom, which exists only in the overlay), and each main package, or each tested package, imports it.
// No file of the program changes, and neither do go.mod, go.sum, vendored trees or the versions of dependencies. Any
// other go subcommand is passed on as it is.
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

// Exit codes of our own: 2 the request was wrong, 3 the environment lacks something. Else that of go.
const (
	exitUsage       = 2
	exitEnvironment = 3
)

// refusal is why no build is attempted.
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
	inv, err := parse(args)
	if err == nil && !inv.hooked {
		return goCommand(args)
	}
	var dir *overlayDir
	if err == nil {
		dir, err = prepare(inv)
	}
	if err != nil {
		var r refusal
		var exit *exec.ExitError
		switch {
		case errors.As(err, &r):
			return r.code, err
		case errors.As(err, &exit): // go has said why
			return exit.ExitCode(), nil
		}
		return exitEnvironment, err
	}
	defer dir.remove()
	return goCommand(inv.with(dir))
}

// prepare finds out what is to be built and makes the overlay for it.
func prepare(inv *invocation) (*overlayDir, error) {
	env, err := goEnv()
	if err != nil {
		return nil, err
	}
	packages, err := list(inv)
	if err != nil {
		return nil, err
	}
	files, err := overlayFiles(env, inv, packages)
	if err != nil {
		return nil, err
	}
	return writeOverlay(files)
}

// goCommand runs go in our place: same streams, signals passed on, its exit code ours.
func goCommand(args []string) (int, error) {
	cmd := exec.Command("go", args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		return exitEnvironment, err
	}
	over := make(chan error, 1)
	go func() { over <- cmd.Wait() }()
	for {
		select {
		case s := <-signals:
			_ = cmd.Process.Signal(s)
		case err := <-over:
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
