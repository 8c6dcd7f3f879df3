//! Vectors of kind `hook`: one call with a fault, from the send to what its caller gets.

use super::{number, text};
use crate::fault_effect::{CallResult, Ended, fault_effect, reply_effect};
use model::FaultKind;
use model::trace::Protocol;
use serde_json::{Value, json};

pub(super) fn call(input: &Value) -> Result<Value, String> {
    let protocol = match text(input, "protocol")?.as_str() {
        "grpc" => Protocol::Grpc,
        "http" => Protocol::Http,
        other => return Err(format!("'{other}' is neither grpc nor http")),
    };
    let fault = match &input["fault"] {
        Value::Null => None,
        fault => {
            let kind = text(fault, "kind")?;
            let kind = FaultKind::parse(&kind).ok_or_else(|| format!("'{kind}' is not a fault kind"))?;
            Some((kind, number(fault, "arg")?))
        }
    };
    let result = result(&input["result"])?;
    let effect = fault_effect(protocol, fault, input["timeout_ms"].as_u64());
    let (ended, has_history) = match effect.ends {
        Some(ended) => (ended, false),
        None => (reply_effect(protocol, fault.map(|(kind, _)| kind), result), has_history(result)),
    };
    Ok(outcome(effect.ends.is_none(), effect.wait_ms, ended, has_history))
}

fn result(value: &Value) -> Result<CallResult, String> {
    let has_history = value["history"].as_bool().ok_or("'history' is not true or false")?;
    match value.get("failed") {
        Some(_) => Ok(CallResult::Failed { code: number(value, "failed")?, has_history }),
        None => Ok(CallResult::Reply { status: number(value, "status")?, has_history }),
    }
}

fn has_history(result: CallResult) -> bool {
    match result {
        CallResult::Reply { has_history, .. } | CallResult::Failed { has_history, .. } => has_history,
    }
}

fn outcome(sent: bool, wait_ms: u64, ended: Ended, has_history: bool) -> Value {
    json!({
        "sent": sent,
        "wait_ms": wait_ms,
        "caller": {"outcome": ended.outcome.as_str(), "status": ended.status},
        "event": {
            "kind": if ended.is_reply { "reply" } else { "call-failed" },
            "status": ended.recorded_status,
            "history": has_history,
            "gap": ended.is_gap,
        },
    })
}
