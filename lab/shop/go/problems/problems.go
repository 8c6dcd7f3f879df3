// Package problems writes one line per problem, not one per request: while a
// problem lasts it is repeated at most every ten seconds, with the number of
// times it happened since.
package problems

import (
	"log"
	"sync"
	"time"
)

const interval = 10 * time.Second

// Log remembers when each problem was last written. The zero value is ready
// to use, also from several goroutines.
type Log struct {
	mu   sync.Mutex
	seen map[string]*problem
}

type problem struct {
	written time.Time
	silent  int
}

// Add records that the problem named subject, such as "home.ads", happened
// because of err.
func (l *Log) Add(subject string, err error) {
	if silent, write := l.add(subject, time.Now()); !write {
		return
	} else if silent > 0 {
		log.Printf("%s: %v (and %d more since the last line)", subject, err, silent)
	} else {
		log.Printf("%s: %v", subject, err)
	}
}

func (l *Log) add(subject string, now time.Time) (silent int, write bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.seen[subject]
	if p == nil {
		if l.seen == nil {
			l.seen = map[string]*problem{}
		}
		l.seen[subject] = &problem{written: now}
		return 0, true
	}
	if now.Sub(p.written) < interval {
		p.silent++
		return 0, false
	}
	silent, p.silent, p.written = p.silent, 0, now
	return silent, true
}
