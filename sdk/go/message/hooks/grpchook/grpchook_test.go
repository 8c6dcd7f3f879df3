package grpchook_test

import (
	"testing"

	"faultloom.dev/go/internal/suite"
)

func TestLowestGRPC(t *testing.T) { suite.Run(t) }

func BenchmarkChainBare(b *testing.B)    { suite.Chain(b, suite.Bare) }
func BenchmarkChainDormant(b *testing.B) { suite.Chain(b, suite.Dormant) }
func BenchmarkChainTraced(b *testing.B)  { suite.Chain(b, suite.Traced) }
