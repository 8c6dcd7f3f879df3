// Package problems logs one line per problem instead of one per request. A
// lasting problem is logged at most every ten seconds, with the number of times
// that it has happened since.
package problems

import (
	"log"
	"sync"
	"time"
)

const interval = 10 * time.Second

// Log stores when each problem was last logged. The zero value is ready to use.
// Safe for concurrent use.
type Log struct {
	mu   sync.Mutex
	last map[string]*problem // by subject
}

type problem struct {
	logged     time.Time
	suppressed int // since then
}

// Add logs that the problem subject, such as "home.ads", was caused by err.
func (l *Log) Add(subject string, err error) {
	if suppressed, write := l.add(subject, time.Now()); !write {
		return
	} else if suppressed > 0 {
		log.Printf("%s: %v (and %d more since the last line)", subject, err, suppressed)
	} else {
		log.Printf("%s: %v", subject, err)
	}
}

func (l *Log) add(subject string, now time.Time) (suppressed int, write bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.last[subject]
	if p == nil {
		if l.last == nil {
			l.last = map[string]*problem{}
		}
		l.last[subject] = &problem{logged: now}
		return 0, true
	}
	if now.Sub(p.logged) < interval {
		p.suppressed++
		return 0, false
	}
	suppressed, p.suppressed, p.logged = p.suppressed, 0, now
	return suppressed, true
}
