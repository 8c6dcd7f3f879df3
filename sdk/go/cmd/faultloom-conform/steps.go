package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"faultloom.dev/go/message/scope"
	"faultloom.dev/go/message/trust"
	"faultloom.dev/go/message/wire"
)

type end struct {
	Call, Status uint64
	History      hexBytes
	Gap          bool
}

type step struct {
	AtUS uint64 `json:"at_us"`
	Send *struct {
		Protocol, Authority, Name string
		Inherited                 bool
	}
	Connected *struct{ Call, US uint64 }
	Unscoped  *struct {
		Calls []struct{ Protocol, Authority, Name, Site string }
		More  uint64
	}
	Reply, Failed *end
	Message       *struct{ Bytes int }
	Respond       *struct {
		Status uint64
		Name   string
	}
}

// scopeSteps executes the steps of a scope, with the times of the input.
func scopeSteps(in struct {
	Trust    string
	Now      int64
	Service  string
	Peers    map[string]string
	Envelope hexBytes
	StartUS  int64 `json:"start_us"`
	Stream   bool
	Steps    []step
}) (object, error) {
	settings, err := trust.ParseSettings(in.Trust)
	if err != nil {
		return nil, err
	}
	process := &scope.Process{Service: in.Service, Peers: in.Peers, Receiver: trust.NewReceiver(settings)}
	env := new(wire.Envelope)
	if _, err := process.Receiver.Accept(env, string(in.Envelope), in.Now, 0); err != nil {
		return nil, err
	}
	s := process.NewScope(env, time.UnixMicro(in.StartUS))
	results, history := []any{}, []byte(nil)
	pieces, joined := scope.PieceWriter{Scope: s}, wire.PieceJoiner{}
	piece := func(p []byte) object {
		if p != nil {
			joined.Add(p)
		}
		return object{"piece": hexOrNull(p)}
	}
	for _, st := range in.Steps {
		result := object{}
		switch {
		case st.Send != nil:
			if result, err = beginCall(s, st); err != nil {
				return nil, err
			}
		case st.Reply != nil:
			s.RecordReply(st.AtUS, st.Reply.Call, scope.CallEnd{Status: st.Reply.Status, History: st.Reply.History, Gap: st.Reply.Gap})
		case st.Failed != nil:
			s.RecordFailure(st.AtUS, st.Failed.Call, scope.CallEnd{Status: st.Failed.Status, History: st.Failed.History, Gap: st.Failed.Gap})
		case st.Unscoped != nil:
			var calls []scope.UnscopedCall
			for _, c := range st.Unscoped.Calls {
				call, err := callOf(s, c.Protocol, c.Authority, c.Name)
				if err != nil {
					return nil, err
				}
				if call.HTTP {
					call.Name = wire.NormalizeHTTPName(call.Name)
				}
				calls = append(calls, scope.UnscopedCall{HTTP: call.HTTP, Peer: call.Peer, Name: call.Name, Site: c.Site})
			}
			s.RecordUnscoped(st.AtUS, calls, st.Unscoped.More)
		case st.Message != nil:
			var p []byte
			if env.Accept&wire.AcceptField != 0 {
				_, p = wire.CutField(pieces.NextPiece(int(env.ReceiveLimit) - st.Message.Bytes))
			}
			result = piece(p)
		case st.Respond != nil && in.Stream:
			result = piece(pieces.LastPiece(st.AtUS, st.Respond.Status, st.Respond.Name, wire.MaxTrailerBytes))
			history = joined.History(env.Call)
		case st.Connected != nil:
			s.SetConnectTime(st.Connected.Call, st.Connected.US)
		case st.Respond != nil:
			history = s.Finish(st.AtUS, st.Respond.Status, st.Respond.Name)
		default:
			return nil, errors.New("a step is send, connected, reply, failed, unscoped, message or respond")
		}
		results = append(results, result)
	}
	return object{"steps": results, "history": hexOrNull(history)}, nil
}

func beginCall(s *scope.Scope, st step) (object, error) {
	out, err := callOf(s, st.Send.Protocol, st.Send.Authority, st.Send.Name)
	if err != nil {
		return nil, err
	}
	begin := s.BeginCall
	if st.Send.Inherited {
		begin = s.BeginInheritedCall
	}
	call, ok := begin(st.AtUS, out)
	if !ok {
		return nil, errors.New("send after respond")
	}
	result := object{"call": call.Number, "id": callIDText(call.ID), "fault": nil, "kind": nil, "envelope": nil}
	if call.Envelope != "" {
		result["envelope"] = hex.EncodeToString([]byte(call.Envelope))
	}
	if call.Fault != nil {
		result["fault"], result["kind"] = call.FaultIndex, call.Fault.Kind.String()
	}
	return result, nil
}

// callOf returns a call by what the vectors have of it.
func callOf(s *scope.Scope, protocol, authority, name string) (scope.Call, error) {
	peer := s.Process().PeerName(authority)
	if protocol != "http" {
		return scope.Call{Peer: peer, Name: name, Accept: wire.AcceptField, ReceiveLimit: 4 << 20}, nil
	}
	method, target, ok := strings.Cut(name, " ")
	if !ok {
		return scope.Call{}, fmt.Errorf("%q is not METHOD /path", name)
	}
	return scope.Call{HTTP: true, Peer: peer, Name: wire.RawHTTPName(method, target), Accept: wire.AcceptTail}, nil
}
