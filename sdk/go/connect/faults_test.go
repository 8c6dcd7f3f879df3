package connect

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	faultloom "faultloom.dev/go"
	"faultloom.dev/go/internal/suite"
	"faultloom.dev/go/message/wire"
)

// injected are the faults and what a caller of connect-go gets: an error's code, or "" for a reply. connect-go returns
// Canceled for a connection that is reset.
var injected = []struct {
	kind  wire.Kind
	arg   uint64
	code  string
	event string // of the caller's history
	runs  bool   // the callee runs
}{
	{wire.Unavailable, 0, "unavailable", "failed 14", false},
	{wire.Reset, 0, "canceled", "failed 14", false},
	{wire.Deadline, 0, "deadline_exceeded", "failed 4", false},
	{wire.Hang, 30, "deadline_exceeded", "failed 4", false},
	{wire.Delay, 30, "", "reply 200", true},
	{wire.Status, 400, "internal", "reply 400", false},
	{wire.Status, 401, "unauthenticated", "reply 401", false},
	{wire.Status, 403, "permission_denied", "reply 403", false},
	{wire.Status, 404, "unimplemented", "reply 404", false},
	{wire.Status, 429, "unavailable", "reply 429", false},
	{wire.Status, 503, "unavailable", "reply 503", false},
	{wire.Status, 500, "unknown", "reply 500", false},
	{wire.LostReply, 0, "canceled", "failed 14", true},
	{wire.EmptyReply, 0, "", "reply 200", true},
	{wire.CorruptReply, 0, "invalid_argument", "reply 200", true},
}

var events = map[int]string{wire.RecvResponse: "reply", wire.CallFailed: "failed"}

func TestConnectClientsGetFaultsAsRealFailures(t *testing.T) {
	s := startTraced(t)
	eachWay(t, func(t *testing.T, protocol, form, kind string) {
		for _, fault := range injected {
			name := fmt.Sprint(fault.kind, " ", fault.arg)
			plan := []faultloom.Fault{{Kind: fault.kind, Arg: fault.arg, Nth: 2,
				Selector: faultloom.Selector{Callee: "back", Call: method(protocol) + service + kind}}}
			outcomes, front := s.call(t, plan, form, protocol, kind, "2", 3)
			if !reflect.DeepEqual(outcomes[0], healthy[kind]) || !reflect.DeepEqual(outcomes[2], healthy[kind]) {
				t.Errorf("%s: other calls are disturbed: %+v", name, outcomes)
			}
			got, code := outcomes[1], fault.code
			switch fault.kind {
			case wire.Delay:
				if !reflect.DeepEqual(got, healthy[kind]) {
					t.Errorf("%s: %+v", name, got)
				}
			case wire.EmptyReply:
				if protocol == "json" && kind == "Get" { // an empty body is no JSON
					code = "invalid_argument"
				} else if text := strings.Join(got.Values, ""); len(got.Values) != len(healthy[kind].Values) || strings.Trim(text, "0") != "" {
					t.Errorf("%s: %+v", name, got)
				}
			}
			if got.Code != code {
				t.Errorf("%s: %+v", name, got)
			}
			end := front.Events[3]
			if event := fmt.Sprint(events[end.Kind], " ", end.Status); event != fault.event || front.Events[2].Fault != 0 {
				t.Error(name, event)
			}
			// a stream of the client is ended at once: its server may wait for the next message
			lost := (fault.kind == wire.LostReply || fault.kind == wire.CorruptReply) && kind == "Chat"
			if ran := end.Child != nil; ran != (fault.runs && !lost) || end.Gap != lost {
				t.Error(name, suite.FormatHistory(front))
			}
		}
	})
}

// grpc-go's own hooks trace the calls of its handler, since the envelope is in the metadata.
func TestGRPCOverServeHTTP(t *testing.T) {
	s := startTraced(t)
	const name = "/grpc.health.v1.Health/Check"
	plan := []faultloom.Fault{{Kind: wire.Status, Arg: 8, Nth: 2, Selector: faultloom.Selector{Callee: "back", Call: name}}}
	serving := outcome{Values: []string{"SERVING"}}
	for _, form := range []string{"h2c", "tls"} {
		for _, plan := range [][]faultloom.Fault{nil, plan, nil} {
			outcomes, front := s.call(t, plan, form, "", "health", "", 3)
			for i, got := range outcomes {
				send, reply := front.Events[2*i], front.Events[2*i+1]
				if plan != nil && i == 1 {
					if got.Code != "unknown" && !strings.Contains(got.Code, "ResourceExhausted") || reply.Status != 8 || reply.Child != nil {
						t.Errorf("%s: %+v\n%s", form, got, suite.FormatHistory(front))
					}
					continue
				}
				if !reflect.DeepEqual(got, serving) || send.Name != name || reply.Gap || reply.Child == nil || reply.Child.Service != "back" {
					t.Errorf("%s: %+v\n%s", form, got, suite.FormatHistory(front))
				}
			}
		}
	}
}

func TestNetHTTPClientsOverTLSAndHTTP2(t *testing.T) {
	s := startTraced(t)
	for form, proto := range map[string]string{"1": "HTTP/1.1", "h2c": "HTTP/2.0", "tls1": "HTTP/1.1", "tls": "HTTP/2.0"} {
		healthy := outcome{Values: []string{"200", proto, proto}}
		for _, fault := range []struct {
			kind wire.Kind
			arg  uint64
			want string // part of the values or the error
			end  string
		}{
			{wire.Unavailable, 0, "connection refused", "failed 14"},
			{wire.Reset, 0, "connection reset by peer", "failed 14"},
			{wire.Deadline, 0, "context deadline exceeded", "failed 4"},
			{wire.Hang, 30, "context deadline exceeded", "failed 4"},
			{wire.Delay, 30, "200", "reply 200 back"},
			{wire.Status, 503, "503", "reply 503"},
			{wire.LostReply, 0, "connection reset by peer", "failed 14 back"},
			{wire.EmptyReply, 0, "200", "reply 200 back"},
			{wire.CorruptReply, 0, "\xff\xff", "reply 200 back"},
		} {
			plan := []faultloom.Fault{{Kind: fault.kind, Arg: fault.arg, Nth: 2, Selector: faultloom.Selector{Callee: "back"}}}
			outcomes, front := s.call(t, plan, form, "", "page", "", 3)
			if !reflect.DeepEqual(outcomes[0], healthy) || !reflect.DeepEqual(outcomes[2], healthy) {
				t.Errorf("%s %v: other calls are disturbed: %+v", form, fault.kind, outcomes)
			}
			got, end := outcomes[1], front.Events[3]
			event := fmt.Sprint(events[end.Kind], " ", end.Status)
			if end.Child != nil {
				event += " " + end.Child.Service
			}
			text := strings.ReplaceAll(strings.Join(got.Values, " ")+got.Code, "\ufffd", "\xff")
			if event != fault.end || end.Gap || !strings.Contains(text, fault.want) {
				t.Errorf("%s %v: %+v %s", form, fault.kind, got, event)
			}
		}
	}
}
