//! Vectors of kind `envelope`.

use super::{bytes, error, id, list, number, parse_id, text};
use crate::accept::Receiver;
use crate::bytes::{hex, unhex};
use crate::carrier::last_value;
use crate::envelope::Envelope;
use crate::trust::Trust;
use serde_json::{Value, json};

fn envelope_json(e: &Envelope) -> Value {
    let mut accept = Vec::new();
    if e.hop.accept.field {
        accept.push("field");
    }
    if e.hop.accept.tail {
        accept.push("tail");
    }
    json!({
        "trace": hex(&e.signed.trace_id), "run": e.signed.run.map(|run| hex(&run)), "bridge": e.signed.bridge, "expires": e.signed.expires, "key": e.signed.key_id,
        "environment": e.signed.environment, "history": e.signed.history, "plan": e.signed.plan,
        "call": id(e.hop.call), "accept": accept, "receive_limit": e.hop.receive_limit, "evidence": e.hop.evidence,
    })
}

/// The values of the request's key, in order: one `value`, or `values`.
fn lines(attempt: &Value) -> Result<Vec<String>, String> {
    if attempt["values"].is_null() {
        return Ok(vec![text(attempt, "value")?]);
    }
    serde_json::from_value(attempt["values"].clone()).map_err(|e| e.to_string())
}

/// Several envelopes for one receiver, in order.
pub(super) fn envelopes(input: &Value) -> Result<Value, String> {
    let trust = Trust::parse(&text(input, "trust")?).map_err(|e| e.to_string())?;
    let now = number(input, "now")?;
    let mut receiver = Receiver::new(trust);
    let mut results = Vec::new();
    for attempt in list(input, "attempts")? {
        let previous = number(attempt, "attempt")?;
        let accepted = match text(attempt, "carrier")?.as_str() {
            "http" => {
                let lines = lines(attempt)?;
                let value = last_value(lines.iter().map(String::as_str)).ok_or("no lines")?;
                receiver.accept_header(value, now, previous)
            }
            "baggage" => {
                receiver.accept_bridged(&text(attempt, "value")?, parse_id(&text(attempt, "call")?)?, now, previous)
            }
            // the field alone counts, whatever the metadata holds
            _ if !attempt["field"].is_null() => receiver.accept(&bytes(attempt, "field")?, now, previous),
            _ => receiver.accept(
                &lines(attempt)?.last().and_then(|hex| unhex(hex)).ok_or("no value, or one that is not hex")?,
                now,
                previous,
            ),
        };
        results.push(match accepted {
            Ok(e) => envelope_json(&e),
            Err(e) => error(e),
        });
    }
    Ok(json!({"results": results}))
}
