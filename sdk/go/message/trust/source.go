package trust

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// checkInterval is the shortest time between two checks of the trust file. Checks happen only when an envelope arrives
// or while a fault waits.
const checkInterval = 200 * time.Millisecond

var processStart = time.Now()

// source provides the current settings. With a path they follow the file, so that keys can be rotated and
// faults can be switched off while the process runs.
type source struct {
	current   atomic.Pointer[Settings]
	failure   atomic.Pointer[string] // why there are no settings, or nil
	path      string
	nextCheck atomic.Int64 // ns since processStart

	mu       sync.Mutex
	modified time.Time
	size     int64
	loaded   bool
}

// Configured reports whether this process was started with trust settings, valid or not. A file may be corrected later.
func Configured() bool {
	return os.Getenv("FAULTLOOM_TRUST_FILE") != "" || os.Getenv("FAULTLOOM_TRUST") != ""
}

// NewReceiverFromEnvironment returns the receiver that FAULTLOOM_TRUST_FILE or FAULTLOOM_TRUST configures. Invalid
// settings make it inactive and are reported on standard error whenever they are read.
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

// NewReceiverFromFile returns a receiver that follows a trust file.
func NewReceiverFromFile(path string) *Receiver {
	r := &Receiver{}
	r.source.path = path
	return r
}

// Settings returns the current settings, or nil if the receiver is inactive.
func (r *Receiver) Settings() *Settings {
	if s := &r.source; s.path != "" {
		if now := int64(time.Since(processStart)); now >= s.nextCheck.Load() {
			s.reload(now)
		}
	}
	return r.source.current.Load()
}

// NoSettings is the State of a receiver without trust settings.
const NoSettings = "no trust settings"

// State returns "keys", or the reason why the receiver is inactive.
func (r *Receiver) State() string {
	s := r.Settings()
	switch failure := r.source.failure.Load(); {
	case s != nil && len(s.keys) > 0:
		return "keys"
	case s != nil:
		return "no key in the trust settings"
	case failure != nil:
		return *failure
	}
	return NoSettings
}

func (s *source) parse(text string) {
	settings, err := ParseSettings(text)
	if err != nil {
		s.disable(err)
		return
	}
	s.current.Store(settings)
}

// disable drops the settings and reports the reason.
func (s *source) disable(reason error) {
	text := reason.Error()
	s.failure.Store(&text)
	s.current.Store(nil)
	fmt.Fprintln(os.Stderr, "faultloom:", text)
}

func (s *source) reload(now int64) {
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
