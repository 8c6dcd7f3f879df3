package main

import (
	"os"
	"slices"
	"strings"
)

// invocation is a parsed go command line.
type invocation struct {
	command      string
	flags        []string // before the packages
	packages     []string // or .go files
	trailing     []string // arguments of the program (run), or what follows the packages (test)
	builds       bool     // a command that builds
	listFlags    []string // the flags that select the files of a package
	virtualFiles []string // files of the overlay to build together with .go files
}

// valueFlags are the flags of go build, run and test that may take their value as the next argument.
var valueFlags = strings.Fields(`C p asmflags buildmode buildvcs compiler covermode coverpkg coverprofile exec gccgoflags gcflags
	installsuffix ldflags mod modfile o overlay pgo pkgdir tags toolexec bench benchtime blockprofile blockprofilerate count
	cpu cpuprofile fuzz fuzztime fuzzminimizetime list memprofile memprofilerate mutexprofile mutexprofilefraction outputdir
	parallel run shuffle skip timeout trace vet vettool`)

func parseArgs(args []string) (*invocation, error) {
	inv := &invocation{command: args[0]}
	switch inv.command {
	case "build", "install", "run", "test":
		inv.builds = true
	default:
		return inv, nil
	}
	args = args[1:]
	for len(args) > 0 {
		arg := args[0]
		if !strings.HasPrefix(arg, "-") || arg == "-" {
			if inv.command == "run" && len(inv.packages) > 0 && !(isGoFile(arg) && isGoFile(inv.packages[0])) {
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
		if !joined && slices.Contains(valueFlags, strings.TrimPrefix(name, "test.")) && len(args) > 1 {
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
			return nil, refuse(exitUsage, "-overlay cannot be combined with faultloom-go, which uses an overlay of its own")
		case "vet":
			args = args[n:]
			continue
		case "tags", "mod", "modfile", "race", "msan", "asan", "compiler":
			inv.listFlags = append(inv.listFlags, args[:n]...)
		}
		inv.flags = append(inv.flags, args[:n]...)
		args = args[n:]
	}
	if len(args) > 0 {
		inv.trailing = args
	}
	for _, p := range inv.packages {
		if strings.Contains(p, "@") {
			return nil, refuse(exitUsage, "%s: a package of another module cannot be hooked; clone its repository and build it there", p)
		}
	}
	if strings.Contains(os.Getenv("GOFLAGS"), "-overlay") {
		return nil, refuse(exitUsage, "GOFLAGS contains -overlay, but faultloom-go uses an overlay of its own")
	}
	return inv, nil
}

func isGoFile(arg string) bool { return strings.HasSuffix(arg, ".go") }

// goArgs returns the command line for go.
func (inv *invocation) goArgs(dir *overlayDir) []string {
	out := append([]string{inv.command, "-overlay=" + dir.json}, inv.flags...)
	if inv.command == "test" {
		out = append(out, "-vet=off") // vet changes to each package's folder, but those of the overlay do not exist on disk
	}
	return append(append(append(out, inv.packages...), inv.virtualFiles...), inv.trailing...)
}
