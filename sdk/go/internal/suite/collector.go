package suite

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"faultloom.dev/go/message/entry"
)

// Collector is a strict OTLP/HTTP receiver for JSON: it refuses everything that is not in the protocol.
type Collector struct {
	Endpoint string
	t        testing.TB
	mu       sync.Mutex
	spans    []Span
	from     []*entry.Exporter
}

// Span is a span that has arrived.
type Span struct {
	Service, Trace, ID, Parent, Name string
	Kind, Code                       int
	Start, End                       uint64 // unix nanoseconds
	Attributes                       map[string]string
}

// String formats the properties that are the same in every run.
func (s Span) String() string {
	out := fmt.Sprintf("%s %s %q", s.Service, map[int]string{2: "server", 3: "client"}[s.Kind], s.Name)
	if s.Code == 2 {
		out += " error"
	}
	var keys []string
	for k := range s.Attributes {
		if strings.HasPrefix(k, "faultloom.") {
			keys = append(keys, " "+strings.TrimPrefix(k, "faultloom.")+"="+s.Attributes[k])
		}
	}
	sort.Strings(keys)
	return out + strings.Join(keys, "")
}

// NewCollector starts a collector on loopback.
func NewCollector(t testing.TB) *Collector {
	c := &Collector{t: t}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := c.accept(r); err != nil {
			t.Errorf("not OTLP: %v", err)
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, "{}")
	}))
	t.Cleanup(s.Close)
	c.Endpoint = s.URL + "/v1/traces"
	return c
}

// Sampler returns the sampler of a service that samples one in n requests and exports to c; n = 0: it only exports.
func (c *Collector) Sampler(n uint64, bridge bool) entry.Sampler {
	x, err := entry.NewExporter(c.Endpoint)
	if err != nil {
		c.t.Fatal(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.from = append(c.from, x)
	return entry.Sampler{OneIn: n, Bridge: bridge, Exporter: x}
}

// Wait waits until at least n spans have arrived and returns all of them.
func (c *Collector) Wait(n int) []Span {
	c.t.Helper()
	var all []Span
	Eventually(c.t, fmt.Sprintf("%d spans arrive", n), func() bool {
		for _, x := range c.from { // instead of waiting until a batch is due
			x.Flush(context.Background())
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		all = append([]Span(nil), c.spans...)
		return len(all) >= n
	})
	return all
}

type otlp struct {
	ResourceSpans []struct {
		Resource   struct{ Attributes []otlpAttribute }
		ScopeSpans []struct {
			Scope struct{ Name string }
			Spans []struct {
				TraceID, SpanID, ParentSpanID, Name string
				Kind                                int
				StartTimeUnixNano, EndTimeUnixNano  string
				Attributes                          []otlpAttribute
				Status                              struct{ Code int }
			}
		}
	}
}

type otlpAttribute struct {
	Key   string
	Value struct {
		StringValue *string
		IntValue    *string
		BoolValue   *bool
	}
}

func (a otlpAttribute) text() (string, error) {
	v := a.Value
	switch {
	case v.StringValue != nil && v.IntValue == nil && v.BoolValue == nil:
		return *v.StringValue, nil
	case v.IntValue != nil && v.StringValue == nil && v.BoolValue == nil:
		_, err := strconv.ParseInt(*v.IntValue, 10, 64)
		return *v.IntValue, err
	case v.BoolValue != nil && v.IntValue == nil && v.StringValue == nil:
		return fmt.Sprint(*v.BoolValue), nil
	}
	return "", fmt.Errorf("attribute %q does not have exactly one value", a.Key)
}

var (
	traceIDs = regexp.MustCompile(`^[0-9a-f]{32}$`)
	spanIDs  = regexp.MustCompile(`^[0-9a-f]{16}$`)
	zeros    = regexp.MustCompile(`^0+$`)
)

func (c *Collector) accept(r *http.Request) error {
	if r.Method != http.MethodPost || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/json" {
		return fmt.Errorf("%s %s, %s", r.Method, r.URL, r.Header.Get("Content-Type"))
	}
	for _, h := range []string{"X-Faultloom", "Traceparent", "Baggage"} {
		if r.Header.Get(h) != "" {
			return fmt.Errorf("the export itself is traced: %s", h)
		}
	}
	var body otlp
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&body); err != nil {
		return err
	}
	var spans []Span
	used := map[string]bool{}
	for _, rs := range body.ResourceSpans {
		if len(rs.Resource.Attributes) != 1 || rs.Resource.Attributes[0].Key != "service.name" || len(rs.ScopeSpans) != 1 || rs.ScopeSpans[0].Scope.Name != "faultloom" {
			return fmt.Errorf("resource %+v", rs.Resource)
		}
		service, err := rs.Resource.Attributes[0].text()
		if err != nil || used[service] {
			return fmt.Errorf("service %q: %v", service, err)
		}
		used[service] = true
		for _, s := range rs.ScopeSpans[0].Spans {
			one := Span{Service: service, Trace: s.TraceID, ID: s.SpanID, Parent: s.ParentSpanID, Name: s.Name, Kind: s.Kind, Code: s.Status.Code, Attributes: map[string]string{}}
			if !traceIDs.MatchString(s.TraceID) || zeros.MatchString(s.TraceID) || !spanIDs.MatchString(s.SpanID) || zeros.MatchString(s.SpanID) ||
				(s.ParentSpanID != "" && !spanIDs.MatchString(s.ParentSpanID)) || used[s.TraceID+s.SpanID] {
				return fmt.Errorf("ids of %+v", s)
			}
			used[s.TraceID+s.SpanID] = true
			var err, err2 error
			one.Start, err = strconv.ParseUint(s.StartTimeUnixNano, 10, 64)
			one.End, err2 = strconv.ParseUint(s.EndTimeUnixNano, 10, 64)
			if now := uint64(time.Now().UnixNano()); err != nil || err2 != nil || one.End < one.Start || one.End > now || now-one.Start > uint64(time.Hour) {
				return fmt.Errorf("times of %+v", s)
			}
			if (s.Kind != 2 && s.Kind != 3) || (s.Status.Code != 0 && s.Status.Code != 2) || s.Name == "" {
				return fmt.Errorf("%+v", s)
			}
			for _, a := range s.Attributes {
				if one.Attributes[a.Key], err = a.text(); err != nil {
					return err
				}
			}
			spans = append(spans, one)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spans = append(c.spans, spans...)
	return nil
}
