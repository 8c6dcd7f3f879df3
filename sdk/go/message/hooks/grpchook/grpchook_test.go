package grpchook_test

import (
	"testing"

	"faultloom.dev/go/internal/suite"
)

func TestLowestGRPC(t *testing.T) { suite.RunAll(t) }

func BenchmarkChainNoHooks(b *testing.B)  { suite.BenchmarkChain(b, suite.NoHooks) }
func BenchmarkChainUntraced(b *testing.B) { suite.BenchmarkChain(b, suite.Untraced) }
func BenchmarkChainTraced(b *testing.B)   { suite.BenchmarkChain(b, suite.Traced) }
