// Package newest runs the gRPC behaviours with the newest grpc-go, in a module of its own so that the SDK's own
// requirement stays the lowest.
package newest

import (
	"testing"

	"faultloom.dev/go/internal/suite"
)

func TestNewestGRPC(t *testing.T) { suite.Run(t) }

func BenchmarkChainBare(b *testing.B)    { suite.Chain(b, suite.Bare) }
func BenchmarkChainDormant(b *testing.B) { suite.Chain(b, suite.Dormant) }
func BenchmarkChainTraced(b *testing.B)  { suite.Chain(b, suite.Traced) }
