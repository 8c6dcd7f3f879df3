package main

import (
	"bufio"
	"encoding/json"
	"os"
	"runtime/pprof"
	"strings"
	"syscall"
)

// control prints the ready line, then executes commands until standard input ends. Every role has these commands:
//
//	cpu              {"cpu_us": user and system time of this process so far}
//	profile FILE     starts a CPU profile; without FILE stops it
//	heap FILE        writes an allocation profile
//
// A role can add others, which get the words after the command as arguments.
func control(ready any, commands map[string]func([]string) any) {
	out := json.NewEncoder(os.Stdout)
	reply := func(v any) {
		if err := out.Encode(v); err != nil {
			os.Exit(1)
		}
	}
	reply(ready)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		words := strings.Fields(in.Text())
		if len(words) == 0 {
			continue
		}
		switch command, ok := commands[words[0]]; {
		case ok:
			reply(command(words[1:]))
		case words[0] == "cpu":
			reply(map[string]int64{"cpu_us": cpuUS()})
		case words[0] == "profile":
			profile(words[1:])
			reply(struct{}{})
		case words[0] == "heap" && len(words) == 2:
			f := create(words[1])
			if err := pprof.Lookup("allocs").WriteTo(f, 0); err != nil {
				fail("%v", err)
			}
			f.Close()
			reply(struct{}{})
		default:
			fail("unknown command %q", words[0])
		}
	}
	os.Exit(0)
}

func cpuUS() int64 {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		fail("%v", err)
	}
	return (r.Utime.Nano() + r.Stime.Nano()) / 1000
}

var profiling *os.File

func profile(words []string) {
	if profiling != nil {
		pprof.StopCPUProfile()
		profiling.Close()
		profiling = nil
	}
	if len(words) > 0 {
		profiling = create(words[0])
		if err := pprof.StartCPUProfile(profiling); err != nil {
			fail("%v", err)
		}
	}
}

func create(name string) *os.File {
	f, err := os.Create(name)
	if err != nil {
		fail("%v", err)
	}
	return f
}
