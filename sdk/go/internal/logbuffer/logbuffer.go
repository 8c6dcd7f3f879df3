// Package logbuffer collects the log of a program or of a goroutine in tests.
package logbuffer

import (
	"bytes"
	"sync"
)

// Buffer is a writer whose text can be read while others write. Safe for concurrent use.
type Buffer struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.out.Write(p)
}

func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.out.String()
}
