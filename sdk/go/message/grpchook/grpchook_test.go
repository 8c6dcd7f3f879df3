package grpchook_test

import (
	"testing"

	"faultloom.dev/go/internal/suite"
)

func TestLowestGRPC(t *testing.T) { suite.Run(t) }

func BenchmarkChainPlain(b *testing.B)  { suite.Chain(b, false) }
func BenchmarkChainHooked(b *testing.B) { suite.Chain(b, true) }
