package faults

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"faultloom.dev/go/message/scope"
	"faultloom.dev/go/message/trust"
	"faultloom.dev/go/message/wire"
)

func openScope(faultsOn bool) *scope.Scope {
	p := &scope.Process{Service: "front", Receiver: trust.NewReceiver(&trust.Settings{Environment: "demo", FaultsEnabled: faultsOn})}
	return p.NewScope(&wire.Envelope{Hop: wire.Hop{Call: 7}}, time.Now())
}

func TestDelayWaitsAndSends(t *testing.T) {
	begin := time.Now()
	e, err := EffectAfterWait(context.Background(), openScope(true), GRPC, &wire.Fault{Kind: wire.Delay, Arg: 20})
	if err != nil || !e.Sends || time.Since(begin) < 20*time.Millisecond {
		t.Errorf("%+v %v after %v", e, err, time.Since(begin))
	}
}

func TestDeadlineOfTheCallerEndsADelay(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	e, err := EffectAfterWait(ctx, openScope(true), HTTP, &wire.Fault{Kind: wire.Delay, Arg: 10_000})
	if e.Sends || err != context.DeadlineExceeded || e.Outcome != DeadlineExceeded {
		t.Errorf("%+v %v", e, err)
	}
}

func TestCancellationEndsAHang(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := EffectAfterWait(ctx, openScope(true), HTTP, &wire.Fault{Kind: wire.Hang}); err != context.Canceled {
		t.Error(err)
	}
}

// When faults are switched off during the wait, a delayed request is sent, even if the caller's deadline would have
// ended the wait. A hang ends with its outcome.
func TestSwitchEndsWaits(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if e, err := EffectAfterWait(ctx, openScope(false), GRPC, &wire.Fault{Kind: wire.Delay, Arg: 25_000}); err != nil || !e.Sends || e.Outcome != Reply {
		t.Errorf("delay: %+v %v", e, err)
	}
	if e, err := EffectAfterWait(ctx, openScope(false), GRPC, &wire.Fault{Kind: wire.Hang}); err != nil || e.Sends || e.Outcome != DeadlineExceeded {
		t.Errorf("hang: %+v %v", e, err)
	}
}

func TestNoOtherHookComparesKinds(t *testing.T) {
	kinds := regexp.MustCompile(`wire\.(Unavailable|Status|Deadline|Reset|Delay|Hang|LostReply|EmptyReply|CorruptReply)\b`)
	files, err := filepath.Glob("../*/*.go")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || filepath.Base(filepath.Dir(file)) == "faults" {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if found := kinds.Find(text); found != nil {
			t.Errorf("%s uses %s", file, found)
		}
	}
}
