package entry

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
)

// maxOneIn is the largest N of a sampling rate 1/N.
const maxOneIn = 1_000_000

// Sampler selects the requests that a service starts to trace itself. The zero value samples and exports nothing.
type Sampler struct {
	OneIn    uint64    // one in OneIn requests is sampled; 0: none
	Bridge   bool      // envelopes of sampled requests also travel in traceparent and baggage
	Exporter *Exporter // gets the histories that no reply carries; nil: they are dropped
}

// NewSampler reads FAULTLOOM_SAMPLE, FAULTLOOM_EXPORT and FAULTLOOM_BRIDGE. An invalid value is reported on log, one
// line, and switches off what it configures.
func NewSampler(getenv func(string) string, log io.Writer) Sampler {
	s := Sampler{Bridge: getenv("FAULTLOOM_BRIDGE") == "on"}
	if endpoint := getenv("FAULTLOOM_EXPORT"); endpoint != "" {
		x, err := NewExporter(endpoint)
		if err != nil {
			fmt.Fprintf(log, "faultloom: FAULTLOOM_EXPORT is %v: nothing is exported\n", err)
		}
		s.Exporter = x
	}
	rate := getenv("FAULTLOOM_SAMPLE")
	if rate == "" {
		return s
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(rate, "1/"), 10, 64)
	switch {
	case err != nil || !strings.HasPrefix(rate, "1/") || n < 1 || n > maxOneIn:
		fmt.Fprintf(log, "faultloom: FAULTLOOM_SAMPLE is not 1/N with N from 1 to %d: no request is sampled\n", maxOneIn)
	case s.Exporter == nil:
		fmt.Fprintln(log, "faultloom: FAULTLOOM_SAMPLE needs FAULTLOOM_EXPORT, the endpoint for histories: no request is sampled")
	default:
		s.OneIn = n
	}
	return s
}

// Sample decides at random whether a request that arrived without an envelope is traced.
func (s *Sampler) Sample() bool { return s.OneIn > 0 && rand.Uint64N(s.OneIn) == 0 }
