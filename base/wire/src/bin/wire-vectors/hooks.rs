//! Faults at a hook: every kind with both protocols, with and without a history, with and without a timeout of the
//! caller.

use crate::book::*;
use model::FaultKind;
use serde_json::{Value, json};

fn input(protocol: &str, fault: Option<(FaultKind, u64)>, timeout_ms: Option<u64>, result: Value) -> Value {
    let fault = fault.map(|(kind, arg)| json!({"kind": kind.as_str(), "arg": arg}));
    json!({"protocol": protocol, "fault": fault, "timeout_ms": timeout_ms, "result": result})
}

fn reply(status: u64, history: bool) -> Value {
    json!({"status": status, "history": history})
}

fn failed(code: u64, history: bool) -> Value {
    json!({"failed": code, "history": history})
}

pub fn write(book: &Book) {
    for (protocol, success, error) in [("grpc", 0, 5), ("http", 200, 404)] {
        let put = |name: &str, about: &str, fault, timeout_ms, result| {
            book.good(&format!("hook-{protocol}-{name}"), "hook", about, input(protocol, fault, timeout_ms, result));
        };
        put("none", "no fault: the reply with its history", None, None, reply(success, true));
        put("none-without-history", "no fault and no history: a gap", None, None, reply(success, false));
        put("none-failed", "no fault: a call that really failed", None, None, failed(14, false));
        put("none-failed-history", "a failed call with a history", None, None, failed(4, true));
        for kind in FaultKind::ALL {
            let arg = match kind {
                FaultKind::Status if protocol == "grpc" => 13,
                FaultKind::Status => 503,
                FaultKind::Delay => 250,
                _ => 0,
            };
            let fault = Some((kind, arg));
            let name = kind.as_str();
            put(name, "the callee would succeed and return its history", fault, None, reply(success, true));
            put(&format!("{name}-gap"), "the callee has no history", fault, None, reply(success, false));
            put(&format!("{name}-error"), "the callee would answer with an error", fault, None, reply(error, true));
            put(&format!("{name}-failed"), "the call would really fail", fault, None, failed(14, false));
            put(&format!("{name}-timeout"), "the caller waits 100 ms", fault, Some(100), reply(success, true));
        }
        let edge = |name: &str, about: &str, kind, arg, timeout_ms| {
            put(name, about, Some((kind, arg)), timeout_ms, reply(success, true));
        };
        edge("delay-zero", "a delay of 0 ms", FaultKind::Delay, 0, None);
        edge("delay-capped", "a delay lasts at most 30 s", FaultKind::Delay, 3_600_000, None);
        edge("delay-in-time", "a delay that ends before the timeout", FaultKind::Delay, 99, Some(100));
        edge("delay-tie", "delay and timeout end together: the timeout wins", FaultKind::Delay, 100, Some(100));
        edge("delay-capped-timeout", "the cap comes before the timeout", FaultKind::Delay, 3_600_000, Some(40_000));
        edge("hang-limited", "a hang with a duration", FaultKind::Hang, 700, None);
        edge("hang-capped", "a hang lasts at most 30 s", FaultKind::Hang, 3_600_000, None);
        edge(
            "hang-short",
            "a hang that ends before the timeout also ends as a deadline",
            FaultKind::Hang,
            50,
            Some(100),
        );
        edge("hang-timeout-zero", "a timeout of 0 ms", FaultKind::Hang, 0, Some(0));
        for status in [0, 1, 16, 17, 199, 200, 999, 1000, 1 << 40] {
            edge(&format!("status-{status}"), "valid and invalid statuses", FaultKind::Status, status, None);
        }
    }
}
