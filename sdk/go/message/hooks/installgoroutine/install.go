//go:build faultloom_overlay

// Package installgoroutine connects the SDK with the pointer that the overlay adds to each goroutine; see scope.Enter.
package installgoroutine

import (
	"unsafe"

	"faultloom.dev/go/message/scope"
)

//go:linkname get runtime.faultloomGet
func get() unsafe.Pointer

//go:linkname swap runtime.faultloomSwap
func swap(unsafe.Pointer) unsafe.Pointer

func init() { scope.SetGoroutinePointer(get, swap) }
