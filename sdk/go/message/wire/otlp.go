package wire

import (
	"encoding/hex"
	"fmt"
	"math"
	"math/bits"
	"strconv"
)

// OTLPRequest is the body of an OTLP/HTTP request in JSON. The fields of these structs are in the order of their JSON
// names.
type OTLPRequest struct {
	ResourceSpans []*resourceSpans `json:"resourceSpans"`

	byService map[string]*scopeSpans // those in ResourceSpans
}

type resourceSpans struct {
	Resource   resource     `json:"resource"`
	ScopeSpans []scopeSpans `json:"scopeSpans"`
}

type resource struct {
	Attributes []attribute `json:"attributes"`
}

type scopeSpans struct {
	Scope instrumentationScope `json:"scope"`
	Spans []span               `json:"spans"`
}

type instrumentationScope struct {
	Name string `json:"name"`
}

type span struct {
	Attributes []attribute `json:"attributes"`
	End        string      `json:"endTimeUnixNano"`
	Kind       int         `json:"kind"`
	Name       string      `json:"name"`
	Parent     string      `json:"parentSpanId,omitempty"`
	ID         string      `json:"spanId"`
	Start      string      `json:"startTimeUnixNano"`
	Status     spanStatus  `json:"status"`
	Trace      string      `json:"traceId"`
}

type spanStatus struct {
	Code int `json:"code,omitempty"`
}

type attribute struct {
	Key   string         `json:"key"`
	Value attributeValue `json:"value"`
}

type attributeValue struct {
	Bool   bool   `json:"boolValue,omitempty"`
	Int    string `json:"intValue,omitempty"`
	String string `json:"stringValue,omitempty"`
}

const (
	kindServer = 2
	kindClient = 3
	statusErr  = 2
)

// Add appends the spans of one history. hasParent means that its request came with a traceparent; then the history's
// call id is the id of the parent span.
func (r *OTLPRequest) Add(trace [16]byte, hasParent bool, h *History) {
	b := spanBuilder{request: r, trace: hex.EncodeToString(trace[:])}
	b.segment(h.Segment, h.Call, "", hasParent)
}

type spanBuilder struct {
	request *OTLPRequest
	trace   string
}

// service returns the spans of a service.
func (b *spanBuilder) service(name string) *scopeSpans {
	if spans := b.request.byService[name]; spans != nil {
		return spans
	}
	if b.request.byService == nil {
		b.request.byService = map[string]*scopeSpans{}
	}
	r := &resourceSpans{Resource: resource{[]attribute{text("service.name", name)}}, ScopeSpans: []scopeSpans{{Scope: instrumentationScope{"faultloom"}}}}
	b.request.ResourceSpans = append(b.request.ResourceSpans, r)
	b.request.byService[name] = &r.ScopeSpans[0]
	return &r.ScopeSpans[0]
}

func (b *spanBuilder) segment(s *Segment, call uint64, callersName string, hasParent bool) {
	into := b.service(s.Service)
	server := spanID(DeriveCallID(call, 0))
	var lastUS, unscoped uint64
	ends := map[uint64]*Event{}
	out := span{Kind: kindServer, ID: server, Trace: b.trace, Start: nanoseconds(s.StartUS, 0), Attributes: []attribute{}}
	for i := range s.Events {
		e := &s.Events[i]
		if e.Kind == UnscopedCalls { // it ends nothing
			sum, carry := bits.Add64(unscoped, e.Count, 0)
			unscoped = sum | -carry // at most 2^64-1
			continue
		}
		lastUS = e.AtUS
		switch e.Kind {
		case RecvResponse, CallFailed:
			ends[e.Call] = e
		case SendResponse:
			http := e.Status >= 100
			out.Attributes = append(out.Attributes, status(http, e.Status))
			if (http && e.Status >= 500) || (!http && e.Status != 0) {
				out.Status.Code = statusErr
			}
		}
	}
	out.End = nanoseconds(s.StartUS, lastUS)
	if hasParent {
		out.Parent = spanID(call)
	}
	for _, name := range []string{s.Service, callersName, s.Name} {
		if name != "" {
			out.Name = name
		}
	}
	out.flag("faultloom.truncated", s.Truncated)
	out.flag("faultloom.faults_off", s.FaultsOff)
	if unscoped > 0 {
		out.Attributes = append(out.Attributes, integer("faultloom.unscoped_calls", unscoped))
	}
	into.Spans = append(into.Spans, out)
	for i := range s.Events {
		if e := &s.Events[i]; e.Kind == SendRequest {
			id, end := DeriveCallID(call, e.Call), ends[e.Call]
			b.client(into, s, e, end, id, server, lastUS)
			if end != nil && end.Child != nil {
				b.segment(end.Child, id, e.Name, true)
			}
		}
	}
}

// client appends the span of one call. end is nil if the call has none.
func (b *spanBuilder) client(into *scopeSpans, s *Segment, sent, end *Event, id uint64, server string, lastUS uint64) {
	out := span{Kind: kindClient, ID: spanID(id), Parent: server, Name: sent.Name, Trace: b.trace, Start: nanoseconds(s.StartUS, sent.AtUS)}
	failed := false
	if end != nil {
		lastUS = end.AtUS
		failed = end.Kind == CallFailed
		http := sent.HTTP && !failed
		out.Attributes = append(out.Attributes, status(http, end.Status))
		if failed || (http && end.Status >= 400) || (!http && end.Status != 0) {
			out.Status.Code = statusErr
		}
	}
	out.End = nanoseconds(s.StartUS, lastUS)
	out.Attributes = append(out.Attributes, text("peer.service", sent.Peer))
	if sent.Fault >= 0 {
		out.Attributes = append(out.Attributes, integer("faultloom.fault", uint64(sent.Fault)))
	}
	out.flag("faultloom.failed", failed)
	out.flag("faultloom.gap", end == nil || end.Gap)
	out.flag("faultloom.inherited", sent.Inherited)
	if end != nil && end.ConnectUS > 0 {
		out.Attributes = append(out.Attributes, integer("faultloom.connect_us", end.ConnectUS))
	}
	into.Spans = append(into.Spans, out)
}

func (s *span) flag(key string, set bool) {
	if set {
		s.Attributes = append(s.Attributes, attribute{key, attributeValue{Bool: true}})
	}
}

func status(http bool, code uint64) attribute {
	if http {
		return integer("http.response.status_code", code)
	}
	return integer("rpc.grpc.status_code", code)
}

func text(key, value string) attribute { return attribute{key, attributeValue{String: value}} }

func integer(key string, value uint64) attribute {
	return attribute{key, attributeValue{Int: strconv.FormatUint(value, 10)}}
}

func spanID(id uint64) string { return fmt.Sprintf("%016x", id) }

// nanoseconds returns a time in nanoseconds since the epoch. It saturates, since a history may contain any number.
func nanoseconds(startUS, afterUS uint64) string {
	us, carry := bits.Add64(startUS, afterUS, 0)
	high, ns := bits.Mul64(us, 1000)
	if carry != 0 || high != 0 {
		ns = math.MaxUint64
	}
	return strconv.FormatUint(ns, 10)
}
