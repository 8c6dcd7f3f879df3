package grpchook_test

import (
	"testing"

	"faultloom.dev/go/internal/suite"
)

func TestLowestGRPC(t *testing.T) { suite.Run(t) }
