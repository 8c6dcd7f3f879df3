// Package newest runs the test suite with the newest grpc-go. It is a module of its own, so that the SDK's requirement
// stays the lowest supported version.
package newest

import (
	"testing"

	"faultloom.dev/go/internal/suite"
)

func TestNewestGRPC(t *testing.T) { suite.RunAll(t) }

func BenchmarkChainNoHooks(b *testing.B)  { suite.BenchmarkChain(b, suite.NoHooks) }
func BenchmarkChainUntraced(b *testing.B) { suite.BenchmarkChain(b, suite.Untraced) }
func BenchmarkChainTraced(b *testing.B)   { suite.BenchmarkChain(b, suite.Traced) }
