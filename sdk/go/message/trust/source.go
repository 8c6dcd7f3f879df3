package trust

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// lookEvery is how often the trust file is looked at, and only when an envelope arrives or a fault is under way.
const lookEvery = 200 * time.Millisecond

var started = time.Now()

// source is where settings come from. With a path they follow the file: that is how keys rotate and how a switch stops
// every fault at once.
type source struct {
	current atomic.Pointer[Settings]
	broken  atomic.Pointer[string] // why there are no settings
	path    string
	next    atomic.Int64 // when to look again, ns since started

	mu       sync.Mutex
	modified time.Time
	size     int64
	looked   bool
}

// Configured tells whether this process was started with trust settings, however they are. A file may get keys later.
func Configured() bool {
	return os.Getenv("FAULTLOOM_TRUST_FILE") != "" || os.Getenv("FAULTLOOM_TRUST") != ""
}

// FromEnvironment makes the receiver that FAULTLOOM_TRUST_FILE or FAULTLOOM_TRUST describes. Broken settings make it
// deaf and are reported on standard error, once per reading.
func FromEnvironment() *Receiver {
	r := &Receiver{}
	if path := os.Getenv("FAULTLOOM_TRUST_FILE"); path != "" {
		r.source.path = path
		return r
	}
	if text := os.Getenv("FAULTLOOM_TRUST"); text != "" {
		r.source.set(text)
	}
	return r
}

// FromFile makes a receiver that follows a trust file.
func FromFile(path string) *Receiver {
	r := &Receiver{}
	r.source.path = path
	return r
}

// Settings returns the settings as they are now, or nil: deaf.
func (r *Receiver) Settings() *Settings {
	if s := &r.source; s.path != "" {
		if now := int64(time.Since(started)); now >= s.next.Load() {
			s.look(now)
		}
	}
	return r.source.current.Load()
}

// NoSettings is why most programs are deaf.
const NoSettings = "no trust settings"

// State is "keys", or says why the receiver is deaf.
func (r *Receiver) State() string {
	s := r.Settings()
	switch why := r.source.broken.Load(); {
	case s != nil && len(s.keys) > 0:
		return "keys"
	case s != nil:
		return "no key in the trust settings"
	case why != nil:
		return *why
	}
	return NoSettings
}

func (s *source) set(text string) {
	settings, err := Parse(text)
	if err != nil {
		s.deafen(err)
		return
	}
	s.current.Store(settings)
}

// deafen forgets the settings and says why.
func (s *source) deafen(why error) {
	text := why.Error()
	s.broken.Store(&text)
	s.current.Store(nil)
	fmt.Fprintln(os.Stderr, "faultloom:", text)
}

func (s *source) look(now int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now < s.next.Load() {
		return
	}
	defer func() { s.next.Store(int64(time.Since(started) + lookEvery)) }()
	info, err := os.Stat(s.path)
	if err != nil {
		if s.current.Load() != nil || !s.looked {
			s.deafen(fmt.Errorf("trust file: %w", err))
		}
		s.looked, s.modified, s.size = true, time.Time{}, -1
		return
	}
	if s.looked && info.ModTime().Equal(s.modified) && info.Size() == s.size {
		return
	}
	text, err := os.ReadFile(s.path)
	if err != nil {
		s.deafen(fmt.Errorf("trust file: %w", err))
	} else {
		s.set(string(text))
	}
	s.looked, s.modified, s.size = true, info.ModTime(), info.Size()
}
