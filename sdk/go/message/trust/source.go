package trust

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// lookEvery is how often the trust file is looked at, and only when an envelope arrives or a fault is under way.
const checkInterval = 200 * time.Millisecond

var processStart = time.Now()

// source is where settings come from. With a path they follow the file: that is how keys rotate and how a switch stops
// every fault at once.
type settingsSource struct {
	current   atomic.Pointer[Settings]
	failure   atomic.Pointer[string] // why there are no settings
	path      string
	nextCheck atomic.Int64 // when to look again, ns since started

	mu       sync.Mutex
	modified time.Time
	size     int64
	loaded   bool
}

// Configured tells whether this process was started with trust settings, however they are. A file may get keys later.
func Configured() bool {
	return os.Getenv("FAULTLOOM_TRUST_FILE") != "" || os.Getenv("FAULTLOOM_TRUST") != ""
}

// FromEnvironment makes the receiver that FAULTLOOM_TRUST_FILE or FAULTLOOM_TRUST describes. Broken settings make it
// deaf and are reported on standard error, once per reading.
func NewReceiverFromEnvironment() *Receiver {
	r := &Receiver{}
	if path := os.Getenv("FAULTLOOM_TRUST_FILE"); path != "" {
		r.source.path = path
		return r
	}
	if text := os.Getenv("FAULTLOOM_TRUST"); text != "" {
		r.source.parse(text)
	}
	return r
}

// FromFile makes a receiver that follows a trust file.
func NewReceiverFromFile(path string) *Receiver {
	r := &Receiver{}
	r.source.path = path
	return r
}

// Settings returns the settings as they are now, or nil: deaf.
func (r *Receiver) Settings() *Settings {
	if s := &r.source; s.path != "" {
		if now := int64(time.Since(processStart)); now >= s.nextCheck.Load() {
			s.reload(now)
		}
	}
	return r.source.current.Load()
}

// NoSettings is why most programs are deaf.
const NoSettings = "no trust settings"

// State is "keys", or says why the receiver is deaf.
func (r *Receiver) State() string {
	s := r.Settings()
	switch why := r.source.failure.Load(); {
	case s != nil && len(s.keys) > 0:
		return "keys"
	case s != nil:
		return "no key in the trust settings"
	case why != nil:
		return *why
	}
	return NoSettings
}

func (s *settingsSource) parse(text string) {
	settings, err := ParseSettings(text)
	if err != nil {
		s.disable(err)
		return
	}
	s.current.Store(settings)
}

// deafen forgets the settings and says why.
func (s *settingsSource) disable(why error) {
	text := why.Error()
	s.failure.Store(&text)
	s.current.Store(nil)
	fmt.Fprintln(os.Stderr, "faultloom:", text)
}

func (s *settingsSource) reload(now int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now < s.nextCheck.Load() {
		return
	}
	defer func() { s.nextCheck.Store(int64(time.Since(processStart) + checkInterval)) }()
	info, err := os.Stat(s.path)
	if err != nil {
		if s.current.Load() != nil || !s.loaded {
			s.disable(fmt.Errorf("trust file: %w", err))
		}
		s.loaded, s.modified, s.size = true, time.Time{}, -1
		return
	}
	if s.loaded && info.ModTime().Equal(s.modified) && info.Size() == s.size {
		return
	}
	text, err := os.ReadFile(s.path)
	if err != nil {
		s.disable(fmt.Errorf("trust file: %w", err))
	} else {
		s.parse(string(text))
	}
	s.loaded, s.modified, s.size = true, info.ModTime(), info.Size()
}
