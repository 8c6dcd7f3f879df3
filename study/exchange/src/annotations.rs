//! What the tool knows about a trace beyond its history: the faults of its plan in words, reasons of gaps, the verdict.
//!
//! The names are defined in docs/formats/otel.md. They are added to the spans of the format's section "OTLP". The SDKs
//! export without them: they know the plan's index of a fault, and neither gaps of the whole trace nor a verdict.

use crate::export::Spans;
use model::trace::Trace;
use model::{Fault, Verdict};
use serde_json::{Value, json};
use std::collections::HashMap;
use wire::span::{Attribute, FAULT, Side};

pub const FAULT_KIND: &str = "faultloom.fault.kind";
/// In the notation of `--fault`.
pub const FAULT_TEXT: &str = "faultloom.fault.text";
pub const GAP_REASON: &str = "faultloom.gap.reason";
pub const VERDICT: &str = "faultloom.verdict";
/// The event at the moment when a fault fires.
const FIRED: &str = "faultloom.fault";

/// Adds attributes. `verdict`: on the whole request.
pub(crate) fn add(spans: &mut Spans, trace: &Trace, faults: &[Fault], verdict: Option<Verdict>) {
    let gaps: HashMap<&str, String> = trace
        .walk()
        .into_iter()
        .filter_map(|call| Some((call.id.as_str(), call.gap_reasons().first()?.to_string())))
        .collect();
    for span in &mut spans.list {
        if span.side != Side::Client {
            continue;
        }
        let fault = span.attributes.iter().find_map(|(key, value)| match value {
            Attribute::Int(index) if *key == FAULT => faults.get(usize::try_from(*index).ok()?),
            _ => None,
        });
        if let Some(fault) = fault {
            let kind = fault.kind.as_str().to_owned();
            span.attributes.push((FAULT_KIND, Attribute::Text(kind)));
            span.attributes.push((FAULT_TEXT, Attribute::Text(fault.to_string())));
        }
        if let Some(reason) = gaps.get(format!("{:016x}", span.id).as_str()) {
            span.attributes.push((GAP_REASON, Attribute::Text(reason.clone())));
        }
    }
    if let (Some(root), Some(verdict)) = (spans.list.first_mut(), verdict) {
        root.attributes.push((VERDICT, Attribute::Text(verdict.as_str().to_owned())));
    }
}

/// Adds the event to each span of an OTLP document whose fault has a kind.
pub(crate) fn add_events(resource: &mut Value) {
    let scopes = resource["scopeSpans"].as_array_mut().into_iter().flatten();
    for span in scopes.flat_map(|scope| scope["spans"].as_array_mut().into_iter().flatten()) {
        let attributes = span["attributes"].as_array().map_or(&[][..], Vec::as_slice);
        let of_fault =
            |attribute: &&Value| attribute["key"].as_str().is_some_and(|key| key == FAULT_KIND || key == FAULT_TEXT);
        let about: Vec<Value> = attributes.iter().filter(of_fault).cloned().collect();
        if !about.is_empty() {
            span["events"] = json!([{ "timeUnixNano": span["startTimeUnixNano"], "name": FIRED, "attributes": about }]);
        }
    }
}
