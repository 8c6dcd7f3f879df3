package main

import (
	"encoding/hex"
	"encoding/json"
	"strconv"

	"faultloom.dev/go/message/wire"
)

func bridgeOut(in struct {
	Envelope    hexBytes
	Trace, Call string
	Headers     map[string]string
}) (object, error) {
	own, err := traceparent(in.Trace, in.Call)
	if err != nil {
		return nil, err
	}
	headers := object{}
	t, b := wire.InjectBridge(in.Headers[wire.TraceparentKey], in.Headers[wire.BaggageKey], string(in.Envelope), own)
	if headers[wire.TraceparentKey] = t; b != "" {
		headers[wire.BaggageKey] = b
	}
	return object{"headers": headers}, nil
}

func traceparent(trace, call string) (t wire.Traceparent, err error) {
	if _, err = hex.Decode(t.Trace[:], []byte(trace)); err == nil {
		t.Parent, err = strconv.ParseUint(call, 16, 64)
	}
	return t, err
}

func bridgeIn(in struct{ Headers map[string]string }) (object, error) {
	if own, ok := in.Headers["x-faultloom"]; ok {
		return object{"carrier": "own", "envelope": own, "call": nil}, nil
	}
	if text, call, ok := wire.ExtractBridge(in.Headers[wire.TraceparentKey], in.Headers[wire.BaggageKey]); ok {
		return object{"carrier": "baggage", "envelope": text, "call": callIDText(call)}, nil
	}
	return object{"carrier": "none", "envelope": nil, "call": nil}, nil
}

func traceparents(in struct{ Values []string }) (object, error) {
	values := []any{}
	for _, text := range in.Values {
		if t, ok := wire.ParseTraceparent(text); ok {
			values = append(values, object{"trace": hex.EncodeToString(t.Trace[:]), "parent": callIDText(t.Parent)})
		} else {
			values = append(values, nil)
		}
	}
	return object{"values": values}, nil
}

func otlpSpans(in struct {
	Trace     string
	HasParent bool `json:"has_parent"`
	History   hexBytes
}) (object, error) {
	t, err := traceparent(in.Trace, "0")
	if err != nil {
		return nil, err
	}
	h, err := wire.DecodeHistory(in.History)
	if err != nil {
		return object{"error": string(wire.Malformed)}, nil
	}
	var request wire.OTLPRequest
	request.Add(t.Trace, in.HasParent, h)
	text, err := json.Marshal(&request)
	if err != nil {
		return nil, err
	}
	var out object
	return out, json.Unmarshal(text, &out)
}
