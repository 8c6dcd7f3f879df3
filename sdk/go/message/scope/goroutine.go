package scope

import (
	"sync/atomic"
	"unsafe"
)

// Programs built by faultloom-go have a pointer in each goroutine, which new goroutines inherit. It refers to the scope
// of the request that the goroutine handles. A call whose context has lost its request gets that scope.

// goroutineHolder is what the pointer refers to. A goroutine may live long after its request, so its holder is emptied
// when the scope finishes.
type goroutineHolder struct{ scope atomic.Pointer[Scope] }

// Both are nil in other programs.
var (
	goroutinePointer     func() unsafe.Pointer
	swapGoroutinePointer func(unsafe.Pointer) unsafe.Pointer
)

// SetGoroutinePointer sets the functions that return and exchange the pointer of the running goroutine. Call it from an
// init function.
func SetGoroutinePointer(get func() unsafe.Pointer, swap func(unsafe.Pointer) unsafe.Pointer) {
	goroutinePointer, swapGoroutinePointer = get, swap
}

func goroutineScope() *Scope {
	if goroutinePointer == nil {
		return nil
	}
	holder := (*goroutineHolder)(goroutinePointer())
	if holder == nil {
		return nil
	}
	return holder.scope.Load()
}

// Enter makes s the scope of the running goroutine and of those that it starts, until Leave.
func (s *Scope) Enter() (before unsafe.Pointer) {
	if swapGoroutinePointer == nil {
		return nil
	}
	s.holder = new(goroutineHolder)
	s.holder.scope.Store(s)
	return swapGoroutinePointer(unsafe.Pointer(s.holder))
}

// Leave ends what Enter began. Call it deferred: if the handler has panicked and the scope is still open, it is
// abandoned, because no reply will carry its history.
func (s *Scope) Leave(before unsafe.Pointer) {
	if swapGoroutinePointer != nil {
		swapGoroutinePointer(before)
	}
	s.abandon()
}

// EnterUntraced is Enter for a request without a scope: its calls do not belong to the request that started the
// goroutine.
func EnterUntraced() {
	if goroutinePointer != nil && goroutinePointer() != nil {
		swapGoroutinePointer(nil)
	}
}
