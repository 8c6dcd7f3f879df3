package main

import (
	"os"
	"slices"
	"strings"
)

// invocation is a go command line, taken apart as far as the overlay needs it.
type invocation struct {
	command  string
	flags    []string // before the packages
	packages []string // or .go files
	rest     []string // arguments of the program (run), or what follows the packages (test)
	hooked   bool     // a command that builds
	listing  []string // the flags that decide which files belong to a package
	extra    []string // virtual files to build along with .go files
}

// Flags of go build, run and test that take their value as the next argument. Others are boolean, or written with '='.
var valued = strings.Fields(`C p asmflags buildmode buildvcs compiler covermode coverpkg coverprofile exec gccgoflags gcflags
	installsuffix ldflags mod modfile o overlay pgo pkgdir tags toolexec bench benchtime blockprofile blockprofilerate count
	cpu cpuprofile fuzz fuzztime fuzzminimizetime list memprofile memprofilerate mutexprofile mutexprofilefraction outputdir
	parallel run shuffle skip timeout trace vet vettool`)

func parse(args []string) (*invocation, error) {
	inv := &invocation{command: args[0]}
	switch inv.command {
	case "build", "install", "run", "test":
		inv.hooked = true
	default:
		return inv, nil
	}
	args = args[1:]
	for len(args) > 0 {
		arg := args[0]
		if !strings.HasPrefix(arg, "-") || arg == "-" {
			if inv.command == "run" && len(inv.packages) > 0 && !(isGo(arg) && isGo(inv.packages[0])) {
				break
			}
			inv.packages = append(inv.packages, arg)
			args = args[1:]
			continue
		}
		if inv.command == "run" && len(inv.packages) > 0 {
			break
		}
		name, value, joined := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if name == "args" && inv.command == "test" {
			break
		}
		n := 1
		if !joined && slices.Contains(valued, strings.TrimPrefix(name, "test.")) && len(args) > 1 {
			n, value = 2, args[1]
		}
		switch name {
		case "C":
			if err := os.Chdir(value); err != nil {
				return nil, err
			}
			args = args[n:]
			continue
		case "overlay":
			return nil, refuse(exitUsage, "-overlay cannot be combined with faultloom-go, which needs an overlay of its own")
		case "vet":
			args = args[n:]
			continue
		case "tags", "mod", "modfile", "race", "msan", "asan", "compiler":
			inv.listing = append(inv.listing, args[:n]...)
		}
		inv.flags = append(inv.flags, args[:n]...)
		args = args[n:]
	}
	if len(args) > 0 {
		inv.rest = args
	}
	for _, p := range inv.packages {
		if strings.Contains(p, "@") {
			return nil, refuse(exitUsage, "%s: a package of another module cannot be hooked; clone its repository and build it there", p)
		}
	}
	if strings.Contains(os.Getenv("GOFLAGS"), "-overlay") {
		return nil, refuse(exitUsage, "GOFLAGS holds -overlay; faultloom-go needs an overlay of its own")
	}
	return inv, nil
}

func isGo(arg string) bool { return strings.HasSuffix(arg, ".go") }

// with is the command line for go.
func (inv *invocation) with(dir *overlayDir) []string {
	out := append([]string{inv.command, "-overlay=" + dir.json}, inv.flags...)
	if inv.command == "test" {
		out = append(out, "-vet=off") // vet changes into each package's folder, and ours do not exist; go vet does not need us
	}
	return append(append(append(out, inv.packages...), inv.extra...), inv.rest...)
}
