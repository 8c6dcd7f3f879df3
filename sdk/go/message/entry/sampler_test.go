package entry

import (
	"strings"
	"testing"
)

func TestInvalidSettingsAreReportedAndIgnored(t *testing.T) {
	EnableTLS()
	for _, c := range []struct {
		sample, export, bridge string
		oneIn                  uint64
		exports                bool
		reports                string
	}{
		{"", "", "", 0, false, ""},
		{"1/1", "http://collector:4318/v1/traces", "on", 1, true, ""},
		{"1/1000000", "https://collector/v1/traces", "", 1_000_000, true, ""},
		{"", "http://collector:4318/v1/traces", "", 0, true, ""},
		{"1/16", "", "", 0, false, "needs FAULTLOOM_EXPORT"},
		{"1/16", "collector", "", 0, false, "FAULTLOOM_EXPORT is not an http"},
		{"1/0", "http://c/", "", 0, true, "FAULTLOOM_SAMPLE is not 1/N"},
		{"1/1000001", "http://c/", "", 0, true, "FAULTLOOM_SAMPLE is not 1/N"},
		{"0.5", "http://c/", "", 0, true, "FAULTLOOM_SAMPLE is not 1/N"},
		{"16", "http://c/", "", 0, true, "FAULTLOOM_SAMPLE is not 1/N"},
		{"1/-2", "http://c/", "", 0, true, "FAULTLOOM_SAMPLE is not 1/N"},
	} {
		var log strings.Builder
		e := NewSampler(func(name string) string {
			return map[string]string{"FAULTLOOM_SAMPLE": c.sample, "FAULTLOOM_EXPORT": c.export, "FAULTLOOM_BRIDGE": c.bridge}[name]
		}, &log)
		if e.OneIn != c.oneIn || (e.Exporter != nil) != c.exports || e.Bridge != (c.bridge == "on") || !strings.Contains(log.String(), c.reports) || (c.reports == "") != (log.Len() == 0) {
			t.Errorf("%+v: %+v, reports %q", c, e, log.String())
		}
	}
}

func TestOneInNIsSampled(t *testing.T) {
	var s Sampler
	for _, n := range []uint64{1, 4, 16} {
		s.OneIn = n
		sampled := 0
		const tries = 64_000
		for i := 0; i < tries; i++ {
			if s.Sample() {
				sampled++
			}
		}
		// six standard deviations and more
		if want := tries / int(n); sampled < want*9/10 || sampled > want*11/10 {
			t.Errorf("1/%d: %d of %d", n, sampled, tries)
		}
	}
	if s.OneIn = 0; s.Sample() {
		t.Error("nothing should be sampled")
	}
}
