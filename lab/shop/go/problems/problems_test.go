package problems

import (
	"testing"
	"time"
)

func TestOneLineWhileAProblemLasts(t *testing.T) {
	var l Log
	start := time.Unix(1000, 0)
	for _, step := range []struct {
		subject    string
		after      time.Duration
		suppressed int
		write      bool
	}{
		{"cart", 0, 0, true},
		{"cart", time.Second, 0, false},
		{"ads", time.Second, 0, true},
		{"cart", 9 * time.Second, 0, false},
		{"cart", 10 * time.Second, 2, true},
		{"cart", 11 * time.Second, 0, false},
		{"cart", 30 * time.Second, 1, true},
		{"cart", 60 * time.Second, 0, true},
	} {
		suppressed, write := l.add(step.subject, start.Add(step.after))
		if suppressed != step.suppressed || write != step.write {
			t.Errorf("%+v: %d, %v", step, suppressed, write)
		}
	}
}
