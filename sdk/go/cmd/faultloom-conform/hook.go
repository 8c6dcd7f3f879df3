package main

import (
	"fmt"

	"faultloom.dev/go/message/hooks/faults"
	"faultloom.dev/go/message/wire"
)

// hook computes what a fault does to one call.
func hook(in struct {
	Protocol string
	Fault    *struct {
		Kind string
		Arg  uint64
	}
	TimeoutMS *uint64 `json:"timeout_ms"`
	Result    struct {
		Status  uint64
		Failed  *uint64
		History bool
	}
}) (object, error) {
	protocol, ok := map[string]faults.Protocol{"grpc": faults.GRPC, "http": faults.HTTP}[in.Protocol]
	if !ok {
		return nil, fmt.Errorf("unknown protocol %q", in.Protocol)
	}
	var fault *wire.Fault
	if in.Fault != nil {
		kind, ok := wire.ParseKind(in.Fault.Kind)
		if !ok {
			return nil, fmt.Errorf("unknown fault %q", in.Fault.Kind)
		}
		fault = &wire.Fault{Kind: kind, Arg: in.Fault.Arg}
	}
	timeout := faults.NoTimeout
	if in.TimeoutMS != nil {
		timeout = *in.TimeoutMS
	}
	effect := faults.FaultEffect(protocol, fault, timeout)
	if !effect.Sends {
		return hookObject(effect.WaitMS, false, effect.Outcome, effect.Status, !effect.RecordsReply(), effect.RecordedStatus, false, false), nil
	}
	result := faults.Result{Status: in.Result.Status, History: in.Result.History}
	if in.Result.Failed != nil {
		result.Failed, result.Status = true, *in.Result.Failed
	}
	after := faults.ReplyEffect(protocol, fault, result)
	return hookObject(effect.WaitMS, true, after.Outcome, after.Status, after.RecordsFailure, after.RecordedStatus, result.History, after.Gap), nil
}

func hookObject(waitMS uint64, sent bool, outcome faults.Outcome, status uint64, failure bool, recorded uint64, history, gap bool) object {
	kind := "reply"
	if failure {
		kind = "call-failed"
	}
	return object{"wait_ms": waitMS, "sent": sent, "caller": object{"outcome": outcome.String(), "status": status},
		"event": object{"kind": kind, "status": recorded, "history": history, "gap": gap}}
}
