//! The conformance program's logic: for each vector kind of `spec/README.md`, the result of an input.

mod envelope;
mod history;
mod hook;
mod http;
mod scope;

use crate::bytes::{hex, unhex};
use crate::{WireError, call_id, carrier, select};
use model::Selector;
use serde_json::{Value, json};

/// The result of one vector. The error is a text: the vector does not have the documented shape.
pub fn result(kind: &str, input: &Value) -> Result<Value, String> {
    match kind {
        "envelope" => envelope::envelopes(input),
        "scope" => scope::scope(input),
        "hook" => hook::call(input),
        "history" => history::read(input),
        "truncate" => history::cut(input),
        "counted" => history::counted(input),
        "join" => history::join(input),
        "otlp" => history::spans(input),
        "field" => {
            Ok(json!({"bytes": hex(&carrier::append_field(&bytes(input, "message")?, &bytes(input, "history")?))}))
        }
        "tail" => {
            Ok(json!({"bytes": hex(&carrier::append_tail(&bytes(input, "message")?, &bytes(input, "history")?))}))
        }
        "cut_field" => Ok(cut(carrier::split_field(&bytes(input, "bytes")?))),
        "takes_field" => Ok(json!({"takes_field": crate::history::takes_field(&bytes(input, "history")?)})),
        "cut_tail" => Ok(cut(carrier::split_tail(&bytes(input, "bytes")?))),
        "match" => {
            let matches = list(input, "pairs")?.iter().map(|p| {
                let s = &p["selector"];
                let selector =
                    Selector { caller: text(s, "caller")?, callee: text(s, "callee")?, call: text(s, "call")? };
                Ok(select::matches(&selector, &text(p, "caller")?, &text(p, "peer")?, &text(p, "name")?))
            });
            Ok(json!({"matches": matches.collect::<Result<Vec<bool>, String>>()?}))
        }
        "name" => {
            let names = list(input, "requests")?.iter().map(|r| {
                Ok(select::normalize_http_name(&select::raw_http_name(&text(r, "method")?, &text(r, "target")?)))
            });
            Ok(json!({"names": names.collect::<Result<Vec<String>, String>>()?}))
        }
        "carrier" => http::reply_carrier(input),
        "last_value" => {
            let lines: Vec<String> = serde_json::from_value(input["lines"].clone()).map_err(|e| e.to_string())?;
            Ok(json!({"value": carrier::last_value(lines.iter().map(String::as_str))}))
        }
        "bridge_out" => http::bridge_out(input),
        "bridge_in" => http::bridge_in(input),
        "traceparent" => http::traceparents(input),
        "call_id" => {
            let parent = parse_id(&text(input, "parent")?)?;
            let ids = list(input, "numbers")?.iter().map(|n| id(call_id::derive(parent, n.as_u64().unwrap_or(0))));
            Ok(json!({"ids": ids.collect::<Vec<_>>()}))
        }
        "corrupt" => {
            let mut body = bytes(input, "bytes")?;
            carrier::corrupt(&mut body);
            Ok(json!({"bytes": hex(&body)}))
        }
        _ => Err(format!("unknown vector kind '{kind}'")),
    }
}

fn text(value: &Value, key: &str) -> Result<String, String> {
    value[key].as_str().map(str::to_owned).ok_or_else(|| format!("'{key}' is not a string"))
}

fn number(value: &Value, key: &str) -> Result<u64, String> {
    value[key].as_u64().ok_or_else(|| format!("'{key}' is not a number"))
}

fn list<'a>(value: &'a Value, key: &str) -> Result<&'a Vec<Value>, String> {
    value[key].as_array().ok_or_else(|| format!("'{key}' is not a list"))
}

fn bytes(value: &Value, key: &str) -> Result<Vec<u8>, String> {
    unhex(&text(value, key)?).ok_or_else(|| format!("'{key}' is not hex"))
}

fn id(call: u64) -> String {
    format!("{call:016x}")
}

fn parse_id(text: &str) -> Result<u64, String> {
    u64::from_str_radix(text, 16).map_err(|e| e.to_string())
}

fn error(e: WireError) -> Value {
    json!({"error": e.code()})
}

fn cut((message, history): (&[u8], Option<&[u8]>)) -> Value {
    json!({"message": hex(message), "history": history.map(hex)})
}
