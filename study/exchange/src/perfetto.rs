//! Trace events for Perfetto and Chrome's viewer: a process per service, lanes of slices, arrows for calls.
//!
//! A scope outside its call is moved to the middle of the call (to its beginning if the scope is longer), because
//! clocks of different services may differ.

use crate::export::{Spans, hex16, hex32};
use crate::lanes::{Lanes, Slice};
use model::Fault;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use wire::span::{Attribute, FAULT, GAP, Side, Span};

pub(crate) fn document(traces: &[Spans], faults: &[Fault]) -> Value {
    let mut services: Vec<&str> = Vec::new();
    let mut slices: Vec<Slice> = Vec::new();
    for (trace, spans) in traces.iter().enumerate() {
        for (span, (start, end)) in spans.list.iter().zip(aligned(&spans.list)) {
            if !services.contains(&span.service.as_str()) {
                services.push(&span.service);
            }
            slices.push(Slice { span, trace, start, end });
        }
    }
    let mut events = Vec::new();
    for (at, service) in services.iter().enumerate() {
        events.push(json!({"ph": "M", "name": "process_name", "pid": at + 1, "tid": 0, "args": {"name": service}}));
        events.push(
            json!({"ph": "M", "name": "process_sort_index", "pid": at + 1, "tid": 0, "args": {"sort_index": at}}),
        );
    }
    for (at, service) in services.iter().enumerate() {
        let mut own: Vec<&Slice> = slices.iter().filter(|s| s.span.service == *service).collect();
        own.sort_by_key(|s| (s.start, -s.end));
        let mut lanes = Lanes::default();
        for slice in own {
            let lane = lanes.assign(slice);
            draw(&mut events, slice, traces[slice.trace].trace_id, (at + 1, lane + 1), faults);
        }
    }
    json!({"displayTimeUnit": "ms", "traceEvents": events})
}

/// Start and end of each span after scopes outside their calls were moved. In the list, parents precede children.
fn aligned(spans: &[Span]) -> Vec<(i128, i128)> {
    let mut shifts: HashMap<u64, i128> = HashMap::new();
    let mut moved: HashMap<u64, (i128, i128)> = HashMap::new();
    let mut out = Vec::with_capacity(spans.len());
    for span in spans {
        let inherited = span.parent.and_then(|p| shifts.get(&p)).copied().unwrap_or(0);
        let (start, end) = (i128::from(span.start_us) + inherited, i128::from(span.end_us) + inherited);
        let call = span.parent.filter(|_| span.side == Side::Server).and_then(|p| moved.get(&p));
        let shift = match call {
            Some((from, to)) if start < *from || end > *to => {
                inherited + from + ((to - from) - (end - start)).max(0) / 2 - start
            }
            _ => inherited,
        };
        let range = (i128::from(span.start_us) + shift, i128::from(span.end_us) + shift);
        shifts.insert(span.id, shift);
        moved.insert(span.id, range);
        out.push(range);
    }
    out
}

fn draw(events: &mut Vec<Value>, slice: &Slice, trace_id: [u8; 16], (pid, tid): (usize, usize), faults: &[Fault]) {
    let span = slice.span;
    let mut arguments: Map<String, Value> = span
        .attributes
        .iter()
        .map(|(key, value)| {
            let value = match value {
                Attribute::Text(text) => json!(text),
                Attribute::Int(number) => json!(number),
                Attribute::True => json!(true),
            };
            ((*key).to_owned(), value)
        })
        .collect();
    arguments.insert("trace".to_owned(), json!(hex32(trace_id)));
    arguments.insert("id".to_owned(), json!(hex16(span.id)));
    let category = match span.side {
        Side::Server => "scope",
        Side::Client => "call",
    };
    events.push(json!({"ph": "X", "name": span.name, "cat": category, "pid": pid, "tid": tid, "ts": time(slice.start),
        "dur": time(slice.end - slice.start), "args": arguments}));
    // an arrow from a call to the scope that answers it; Perfetto parses its id as a 64-bit number, which must be
    // unique over all traces
    let trace = u128::from_be_bytes(trace_id);
    let arrow = |id: u64| hex16(id ^ trace as u64 ^ (trace >> 64) as u64);
    match (span.side, span.parent) {
        (Side::Client, _) => events.push(json!({"ph": "s", "name": "call", "cat": "call", "id": arrow(span.id),
            "pid": pid, "tid": tid, "ts": time(slice.start)})),
        (Side::Server, Some(call)) => events.push(json!({"ph": "f", "bp": "e", "name": "call", "cat": "call",
            "id": arrow(call), "pid": pid, "tid": tid, "ts": time(slice.start)})),
        (Side::Server, None) => {}
    }
    let mut instant = |name: String, at: i128| {
        events.push(json!({"ph": "i", "s": "t", "name": name, "cat": "mark", "pid": pid, "tid": tid, "ts": time(at)}));
    };
    for (key, value) in &span.attributes {
        match (*key, value) {
            (FAULT, Attribute::Int(index)) => {
                let fault = usize::try_from(*index).ok().and_then(|i| faults.get(i));
                instant(fault.map_or_else(|| format!("fault {index}"), |f| format!("fault: {f}")), slice.start);
            }
            (GAP, _) => instant("gap".to_owned(), slice.end),
            _ => {}
        }
    }
}

fn time(us: i128) -> u64 {
    u64::try_from(us.max(0)).unwrap_or(u64::MAX)
}
