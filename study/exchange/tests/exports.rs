//! Every export format: the golden, and whether the document is consistent.

use crate::support::{export, faults, golden, trace, traces};
use exchange::Format;
use serde_json::Value;
use std::collections::{HashMap, HashSet};

const FORMATS: [(Format, &str); 4] =
    [(Format::Otlp, "otlp"), (Format::Jaeger, "jaeger"), (Format::Zipkin, "zipkin"), (Format::Perfetto, "perfetto")];

#[test]
fn exports_equal_their_goldens() {
    for (format, name) in FORMATS {
        golden(&format!("{name}.json"), &export(&traces(), &faults(), format).unwrap());
    }
}

#[test]
fn an_otlp_export_says_in_words_what_the_tool_knows() {
    let trace = [trace("otlp-faulted", [1; 16])];
    let mut document = Vec::new();
    let faults = faults();
    let export = exchange::Export::new(&trace, &faults, Format::Otlp).unwrap();
    export.with_verdict(Some(model::Verdict::Fail)).write(&mut document).unwrap();
    let document: Value = serde_json::from_slice(&document).unwrap();
    let resources = list(&document, "resourceSpans").iter();
    let spans: Vec<&Value> = resources.flat_map(|one| list(&one["scopeSpans"][0], "spans")).collect();
    let attribute = |span: &Value, key: &str| {
        let found = list(span, "attributes").iter().find(|attribute| attribute["key"] == key)?;
        found["value"]["stringValue"].as_str().map(str::to_owned)
    };
    let verdicts: Vec<String> = spans.iter().filter_map(|span| attribute(span, "faultloom.verdict")).collect();
    assert_eq!(verdicts, ["fail"], "on the root alone");
    let fired: Vec<(&Value, String)> =
        spans.iter().filter_map(|span| Some((*span, attribute(span, "faultloom.fault.text")?))).collect();
    assert!(fired.iter().any(|(_, text)| text == "currency unavailable"), "{fired:?}");
    for (span, text) in fired {
        let event = &span["events"][0];
        assert_eq!((&event["name"], &event["timeUnixNano"]), (&"faultloom.fault".into(), &span["startTimeUnixNano"]));
        assert_eq!(attribute(event, "faultloom.fault.text"), Some(text));
    }
    let with_events = spans.iter().filter(|span| span.get("events").is_some());
    assert!(with_events.clone().count() > 0 && with_events.count() < spans.len());
}

fn list<'a>(value: &'a Value, key: &str) -> &'a Vec<Value> {
    value[key].as_array().unwrap_or_else(|| panic!("{key} is not a list in {value}"))
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("{key} is not a text in {value}"))
}

fn hex(value: &Value, key: &str, digits: usize) -> String {
    let id = text(value, key);
    assert!(id.len() == digits && id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')), "{id}");
    assert!(id.bytes().any(|b| b != b'0'), "{id}");
    id.to_owned()
}

/// The object has all required keys, and no keys other than these.
#[track_caller]
fn keys(value: &Value, required: &[&str], optional: &[&str]) {
    let object = value.as_object().unwrap();
    for key in required {
        assert!(object.contains_key(*key), "no {key} in {value}");
    }
    for key in object.keys() {
        assert!(required.contains(&key.as_str()) || optional.contains(&key.as_str()), "{key} in {value}");
    }
}

/// `spans`: (trace, id, parent). Ids are unique within a trace, every parent exists, every trace has one root.
#[track_caller]
fn assert_trees(spans: &[(String, String, Option<String>)]) {
    let mut by_trace: HashMap<&str, HashMap<&str, Option<&str>>> = HashMap::new();
    for (trace, id, parent) in spans {
        let twice = by_trace.entry(trace).or_default().insert(id, parent.as_deref());
        assert!(twice.is_none(), "{id} twice");
    }
    assert_eq!(by_trace.len(), traces().len());
    for spans in by_trace.values() {
        assert_eq!(spans.values().filter(|parent| parent.is_none()).count(), 1);
        for parent in spans.values().flatten() {
            assert!(spans.contains_key(parent), "{parent} is missing");
        }
    }
}

#[test]
fn otlp_follows_its_schema() {
    let document = export(&traces(), &[], Format::Otlp).unwrap();
    keys(&document, &["resourceSpans"], &[]);
    let mut spans = Vec::new();
    for resource in list(&document, "resourceSpans") {
        keys(resource, &["resource", "scopeSpans"], &[]);
        for scope in list(resource, "scopeSpans") {
            for span in list(scope, "spans") {
                let required = [
                    "traceId",
                    "spanId",
                    "name",
                    "kind",
                    "startTimeUnixNano",
                    "endTimeUnixNano",
                    "attributes",
                    "status",
                ];
                keys(span, &required, &["parentSpanId"]);
                let time = |key: &str| text(span, key).parse::<u64>().unwrap();
                assert!(time("startTimeUnixNano") <= time("endTimeUnixNano"));
                assert!([2, 3].contains(&span["kind"].as_u64().unwrap()));
                let parent = span.get("parentSpanId").map(|_| hex(span, "parentSpanId", 16));
                spans.push((hex(span, "traceId", 32), hex(span, "spanId", 16), parent));
            }
        }
    }
    assert_trees(&spans);
}

#[test]
fn every_process_and_parent_of_a_jaeger_export_exists() {
    let document = export(&traces(), &[], Format::Jaeger).unwrap();
    keys(&document, &["data", "total", "limit", "offset", "errors"], &[]);
    let mut spans = Vec::new();
    for trace in list(&document, "data") {
        keys(trace, &["traceID", "spans", "processes", "warnings"], &[]);
        let id = hex(trace, "traceID", 32);
        for span in list(trace, "spans") {
            let required = [
                "traceID",
                "spanID",
                "operationName",
                "references",
                "startTime",
                "duration",
                "tags",
                "logs",
                "processID",
                "warnings",
            ];
            keys(span, &required, &[]);
            assert_eq!(hex(span, "traceID", 32), id);
            assert!(!text(&trace["processes"][text(span, "processID")], "serviceName").is_empty());
            assert!(span["startTime"].is_u64() && span["duration"].is_u64());
            let references = list(span, "references");
            let parent = references.first().map(|reference| {
                keys(reference, &["refType", "traceID", "spanID"], &[]);
                assert_eq!((text(reference, "refType"), hex(reference, "traceID", 32)), ("CHILD_OF", id.clone()));
                hex(reference, "spanID", 16)
            });
            for tag in list(span, "tags") {
                let value = &tag["value"];
                let right = match text(tag, "type") {
                    "string" => value.is_string(),
                    "int64" => value.is_i64() || value.is_u64(),
                    "bool" => value.is_boolean(),
                    _ => false,
                };
                assert!(right, "{tag}");
            }
            spans.push((id.clone(), hex(span, "spanID", 16), parent));
        }
    }
    assert_trees(&spans);
}

#[test]
fn zipkin_tags_are_texts_and_durations_are_positive() {
    let document = export(&traces(), &[], Format::Zipkin).unwrap();
    let mut spans = Vec::new();
    for span in document.as_array().unwrap() {
        let required = ["traceId", "id", "name", "kind", "timestamp", "duration", "localEndpoint", "tags"];
        keys(span, &required, &["parentId", "remoteEndpoint"]);
        assert!(["CLIENT", "SERVER"].contains(&text(span, "kind")));
        assert!(span["timestamp"].as_u64().unwrap() > 0 && span["duration"].as_u64().unwrap() > 0);
        assert!(span["tags"].as_object().unwrap().values().all(Value::is_string));
        assert_eq!(span.get("remoteEndpoint").is_some(), text(span, "kind") == "CLIENT");
        let parent = span.get("parentId").map(|_| hex(span, "parentId", 16));
        spans.push((hex(span, "traceId", 32), hex(span, "id", 16), parent));
    }
    assert_trees(&spans);
}

#[test]
fn perfetto_slices_are_nested_or_disjoint_and_arrows_have_two_ends() {
    let document = export(&traces(), &faults(), Format::Perfetto).unwrap();
    let events = list(&document, "traceEvents");
    let of = |phase: &str| events.iter().filter(|e| e["ph"] == phase).collect::<Vec<_>>();
    let lane_of = |e: &Value| (e["pid"].as_u64().unwrap(), e["tid"].as_u64().unwrap());
    let processes: HashSet<u64> = of("M").iter().map(|e| e["pid"].as_u64().unwrap()).collect();
    let mut lanes: HashMap<(u64, u64), Vec<(u64, u64)>> = HashMap::new();
    for slice in of("X") {
        keys(slice, &["ph", "name", "cat", "pid", "tid", "ts", "dur", "args"], &[]);
        assert!(processes.contains(&lane_of(slice).0));
        let begin = slice["ts"].as_u64().unwrap();
        lanes.entry(lane_of(slice)).or_default().push((begin, begin + slice["dur"].as_u64().unwrap()));
    }
    for lane in lanes.values() {
        for (i, a) in lane.iter().enumerate() {
            for b in &lane[i + 1..] {
                let apart = a.1 <= b.0 || b.1 <= a.0;
                let inside = (a.0 <= b.0 && b.1 <= a.1) || (b.0 <= a.0 && a.1 <= b.1);
                assert!(apart || inside, "{a:?} and {b:?} overlap in one lane");
            }
        }
    }
    // every arrow has a start, which is not later than its end, and both lie on a slice
    let starts: HashMap<&str, &Value> = of("s").into_iter().map(|e| (text(e, "id"), e)).collect();
    assert_eq!(starts.len(), of("s").len());
    for end in of("f") {
        let start = starts[text(end, "id")];
        assert!(start["ts"].as_u64() <= end["ts"].as_u64());
        for arrow in [start, end] {
            let at = arrow["ts"].as_u64().unwrap();
            assert!(lanes[&lane_of(arrow)].iter().any(|(from, to)| *from <= at && at <= *to));
        }
    }
    assert!(!of("f").is_empty());
    let marks: Vec<&str> = of("i").into_iter().map(|e| text(e, "name")).collect();
    assert!(marks.contains(&"gap") && marks.contains(&"fault: currency status 13"), "{marks:?}");
}

#[test]
fn a_run_without_a_history_has_nothing_to_export() {
    let mut traces = traces();
    traces.iter_mut().for_each(|trace| trace.entry.scope = None);
    for (format, _) in FORMATS {
        let failure = export(&traces, &[], format).unwrap_err();
        assert_eq!(failure.exit(), model::Exit::Unknown);
        assert!(failure.to_string().contains("no reply of this run has a history"), "{failure}");
    }
}

/// Every call is in the lane of its own scope, and no lane has slices of two requests.
#[test]
fn thousands_of_concurrent_requests_have_lanes_of_their_own() {
    const REQUESTS: u128 = 3_000;
    let traces: Vec<_> = (1..=REQUESTS).map(|n| trace("otlp-nested", u128::to_be_bytes(n))).collect();
    let document = export(&traces, &[], Format::Perfetto).unwrap();
    let slices = document["traceEvents"].as_array().unwrap().iter().filter(|e| e["ph"] == "X");
    let entry =
        document["traceEvents"].as_array().unwrap().iter().find(|e| e["cat"] == "scope").unwrap()["pid"].clone();
    let mut lanes: HashMap<&Value, HashSet<&Value>> = HashMap::new();
    let mut scopes = 0;
    for slice in slices.filter(|e| e["pid"] == entry) {
        lanes.entry(&slice["tid"]).or_default().insert(&slice["args"]["trace"]);
        scopes += u128::from(slice["cat"] == "scope");
    }
    // all requests have the same times, so no lane becomes free for another request
    assert!(lanes.values().all(|traces| traces.len() == 1), "a lane holds slices of several requests");
    assert_eq!(
        (scopes % REQUESTS, lanes.len() as u128 >= REQUESTS),
        (0, true),
        "{scopes} scopes, {} lanes",
        lanes.len()
    );
}
