package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"faultloom.dev/go/message/trust"
	"faultloom.dev/go/message/wire"
)

type object = map[string]any

var kinds = map[string]func(json.RawMessage) (object, error){
	"envelope": decoded(acceptEnvelopes), "scope": decoded(scopeSteps), "history": decoded(history), "truncate": decoded(truncate),
	"field": decoded(field), "cut_field": decoded(cutField), "tail": decoded(tail), "cut_tail": decoded(cutTail), "takes_field": decoded(takesField),
	"match": decoded(match), "name": decoded(normalizeNames), "carrier": decoded(carrier), "call_id": decoded(callID), "corrupt": decoded(corrupt),
	"join": decoded(join), "bridge_out": decoded(bridgeOut), "bridge_in": decoded(bridgeIn), "traceparent": decoded(traceparents), "otlp": decoded(otlpSpans), "hook": decoded(hook),
	"last_value": decoded(lastValue), "counted": decoded(counted),
}

func decoded[T any](f func(T) (object, error)) func(json.RawMessage) (object, error) {
	return func(raw json.RawMessage) (object, error) {
		var input T
		if err := json.Unmarshal(raw, &input); err != nil {
			return nil, err
		}
		return f(input)
	}
}

// hexBytes are bytes in hex.
type hexBytes []byte

func (b *hexBytes) UnmarshalJSON(text []byte) error {
	var s *string
	if err := json.Unmarshal(text, &s); err != nil || s == nil {
		return err
	}
	raw, err := hex.DecodeString(*s)
	if raw == nil {
		raw = []byte{}
	}
	*b = raw
	return err
}

// hexOrNull returns hex, or null for nil.
func hexOrNull(b []byte) any {
	if b == nil {
		return nil
	}
	return hex.EncodeToString(b)
}

func callIDText(call uint64) string { return fmt.Sprintf("%016x", call) }

func failure(err error) object {
	if code, ok := err.(wire.Error); ok {
		return object{"error": string(code)}
	}
	return object{"error": err.Error()}
}

func acceptEnvelopes(in struct {
	Trust    string
	Now      int64
	Attempts []struct {
		Carrier, Value string
		Values         []string // of several lines, in place of Value
		Field          hexBytes // gRPC: the envelope in the message
		Call           string   // baggage: the parent of traceparent
		Attempt        uint64
	}
}) (object, error) {
	settings, err := trust.ParseSettings(in.Trust)
	if err != nil {
		return nil, err
	}
	receiver := trust.NewReceiver(settings)
	results := []any{}
	for _, a := range in.Attempts {
		env := new(wire.Envelope)
		if a.Values == nil {
			a.Values = []string{a.Value}
		}
		switch a.Carrier {
		case "http":
			_, err = receiver.AcceptHeader(env, wire.LastValue(a.Values), in.Now)
		case "baggage":
			call, bad := strconv.ParseUint(a.Call, 16, 64)
			if bad != nil {
				return nil, bad
			}
			_, err = receiver.AcceptBridged(env, a.Value, in.Now, a.Attempt, call)
		default:
			raw, bad := hex.DecodeString(a.Values[len(a.Values)-1])
			if bad != nil {
				return nil, bad
			}
			if a.Field != nil {
				raw = a.Field
			}
			_, err = receiver.Accept(env, string(raw), in.Now, a.Attempt)
		}
		if err != nil {
			results = append(results, failure(err))
		} else {
			results = append(results, envelopeObject(env))
		}
	}
	return object{"results": results}, nil
}

func envelopeObject(e *wire.Envelope) object {
	accept := []string{}
	if e.Accept&wire.AcceptField != 0 {
		accept = append(accept, "field")
	}
	if e.Accept&wire.AcceptTail != 0 {
		accept = append(accept, "tail")
	}
	var plan any
	if e.Plan != nil {
		list := []any{}
		for i := range e.Plan {
			list = append(list, faultObject(&e.Plan[i]))
		}
		plan = list
	}
	evidence := e.Evidence
	if evidence == nil {
		evidence = []uint64{}
	}
	var run any
	if e.HasRun {
		run = hex.EncodeToString(e.Run[:])
	}
	return object{"trace": hex.EncodeToString(e.Trace[:]), "run": run, "bridge": e.Bridge, "expires": e.Expires, "key": e.KeyID,
		"environment": e.Environment, "history": e.History, "plan": plan, "call": callIDText(e.Call), "accept": accept,
		"receive_limit": e.ReceiveLimit, "evidence": evidence}
}

func faultObject(f *wire.Fault) object {
	after := []any{}
	for _, a := range f.After {
		after = append(after, object{"caller": a.Caller, "callee": a.Callee, "call": a.Call, "times": a.Times})
	}
	counts := "completed"
	if f.AfterSent {
		counts = "sent"
	}
	return object{"kind": f.Kind.String(), "arg": f.Arg, "caller": f.Caller, "callee": f.Callee, "call": f.Call, "nth": f.Nth,
		"max_fires": f.MaxFires, "after": after, "after_counts": counts}
}

func history(in struct{ Bytes hexBytes }) (object, error) {
	h, err := wire.DecodeHistory(in.Bytes)
	if err != nil {
		return failure(err), nil
	}
	return object{"call": callIDText(h.Call), "segment": segmentObject(h.Segment, h.Call)}, nil
}

func segmentObject(s *wire.Segment, call uint64) object {
	events := []any{}
	for i := range s.Events {
		e := &s.Events[i]
		switch e.Kind {
		case wire.SendRequest:
			fault := any(nil)
			if e.Fault >= 0 {
				fault = e.Fault
			}
			sent := object{"kind": "SEND_REQUEST", "at_us": e.AtUS, "call": e.Call, "id": callIDText(wire.DeriveCallID(call, e.Call)),
				"name": e.Name, "peer": e.Peer, "protocol": protocol(e.HTTP), "fault": fault}
			if e.Inherited {
				sent["inherited"] = true
			}
			events = append(events, sent)
		case wire.UnscopedCalls:
			events = append(events, object{"kind": "UNSCOPED_CALLS", "at_us": e.AtUS, "name": e.Name, "peer": e.Peer, "protocol": protocol(e.HTTP),
				"count": e.Count, "site": e.Site})
		case wire.SendResponse:
			events = append(events, object{"kind": "SEND_RESPONSE", "at_us": e.AtUS, "status": e.Status})
		default:
			kind, child := "RECV_RESPONSE", any(nil)
			if e.Kind == wire.CallFailed {
				kind = "CALL_FAILED"
			}
			if e.Child != nil {
				child = segmentObject(e.Child, wire.DeriveCallID(call, e.Call))
			}
			ended := object{"kind": kind, "at_us": e.AtUS, "call": e.Call, "status": e.Status, "gap": e.Gap, "child": child}
			if e.ConnectUS > 0 {
				ended["connect_us"] = e.ConnectUS
			}
			events = append(events, ended)
		}
	}
	return object{"service": s.Service, "name": s.Name, "start_us": s.StartUS, "truncated": s.Truncated, "faults_off": s.FaultsOff, "events": events}
}

func protocol(http bool) string {
	if http {
		return "http"
	}
	return "grpc"
}

func truncate(in struct {
	History hexBytes
	Limit   int
}) (object, error) {
	cut, err := wire.TruncateHistory(in.History, in.Limit)
	if err != nil {
		return nil, err
	}
	return object{"history": hexOrNull(cut)}, nil
}

type carrierInput struct{ Message, History, Bytes hexBytes }

func field(in carrierInput) (object, error) {
	return object{"bytes": hex.EncodeToString(wire.AppendField(in.Message, in.History))}, nil
}

func tail(in carrierInput) (object, error) {
	return object{"bytes": hex.EncodeToString(wire.AppendTail(in.Message, in.History))}, nil
}

func cutField(in carrierInput) (object, error) {
	message, history := wire.CutField(in.Bytes)
	return object{"message": hex.EncodeToString(message), "history": hexOrNull(history)}, nil
}

func cutTail(in carrierInput) (object, error) {
	body, history := wire.CutTail(in.Bytes)
	return object{"message": hex.EncodeToString(body), "history": hexOrNull(history)}, nil
}

func takesField(in struct{ History hexBytes }) (object, error) {
	return object{"takes_field": wire.TakesField(in.History)}, nil
}

func match(in struct {
	Pairs []struct {
		Selector           wire.Selector
		Caller, Peer, Name string
	}
}) (object, error) {
	matches := []bool{}
	for _, p := range in.Pairs {
		matches = append(matches, p.Selector.Matches(p.Caller, p.Peer, p.Name))
	}
	return object{"matches": matches}, nil
}

func normalizeNames(in struct {
	Requests []struct{ Method, Target string }
}) (object, error) {
	names := []string{}
	for _, r := range in.Requests {
		names = append(names, wire.NormalizeHTTPName(wire.RawHTTPName(r.Method, r.Target)))
	}
	return object{"names": names}, nil
}

func carrier(in struct {
	Method         string
	RequestHeaders map[string]string `json:"request_headers"`
	Status         int
	Headers        map[string]string
	Complete       bool
	Accept         []string
	HistoryBytes   int `json:"history_bytes"`
}) (object, error) {
	var accept wire.Accept
	for _, a := range in.Accept {
		accept |= map[string]wire.Accept{"field": wire.AcceptField, "tail": wire.AcceptTail}[a]
	}
	headers := func(m map[string]string) http.Header {
		h := http.Header{}
		for k, v := range m {
			h.Set(k, v)
		}
		return h
	}
	result := "truncated_header"
	switch {
	case in.HistoryBytes <= wire.MaxHeaderBytes:
		result = "header"
	case in.Complete && wire.AllowsTail(accept, in.Method, headers(in.RequestHeaders), in.Status, headers(in.Headers)):
		result = "tail"
	}
	return object{"carrier": result}, nil
}

func callID(in struct {
	Parent  string
	Numbers []uint64
}) (object, error) {
	parent, err := strconv.ParseUint(in.Parent, 16, 64)
	if err != nil {
		return nil, err
	}
	ids := []string{}
	for _, n := range in.Numbers {
		ids = append(ids, callIDText(wire.DeriveCallID(parent, n)))
	}
	return object{"ids": ids}, nil
}

func join(in struct {
	Call   string
	Pieces []hexBytes
}) (object, error) {
	call, err := strconv.ParseUint(in.Call, 16, 64)
	if err != nil {
		return nil, err
	}
	var j wire.PieceJoiner
	for _, p := range in.Pieces {
		j.Add(p)
	}
	history := j.History(call)
	return object{"history": hexOrNull(history), "complete": history != nil && j.IsComplete()}, nil
}

func counted(in struct {
	Parts   [][2]any
	Version byte
}) (object, error) {
	var b []byte
	for _, part := range in.Parts {
		text, _ := part[0].(string)
		times, _ := part[1].(float64)
		raw, err := hex.DecodeString(text)
		if err != nil {
			return nil, err
		}
		b = append(b, bytes.Repeat(raw, int(times))...)
	}
	segment, tooLarge := wire.DecodeCounted(max(in.Version, wire.Version), b)
	switch {
	case tooLarge:
		return object{"result": "too_large"}, nil
	case segment == nil:
		return object{"result": "unreadable"}, nil
	}
	return object{"result": "counted"}, nil
}

func lastValue(in struct{ Lines []string }) (object, error) {
	if len(in.Lines) == 0 {
		return object{"value": nil}, nil
	}
	return object{"value": wire.LastValue(in.Lines)}, nil
}

func corrupt(in carrierInput) (object, error) {
	wire.CorruptBody(in.Bytes)
	return object{"bytes": hex.EncodeToString(in.Bytes)}, nil
}
