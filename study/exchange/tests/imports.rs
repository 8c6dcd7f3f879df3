//! OTLP import: our own exports are restored, spans of other tracers become calls, invalid files are refused with the
//! position of the error.

use crate::support::{Imported, export, import, trace, traces, vector};
use exchange::Format;
use model::trace::{Outcome, Protocol, Trace};
use serde_json::{Value, json};

fn read(document: &Value) -> Imported {
    import("a.json", document.to_string().as_bytes()).unwrap_or_else(|e| panic!("{e}"))
}

#[track_caller]
fn refused(text: &str) -> String {
    let failure = import("a.json", text.as_bytes()).err().unwrap_or_else(|| panic!("{text} is accepted"));
    assert_eq!(failure.exit(), model::Exit::Usage);
    assert!(failure.next.is_some());
    failure.to_string()
}

#[test]
fn an_export_is_restored_by_its_import() {
    let exported = export(&traces(), &[], Format::Otlp).unwrap();
    let imported = read(&exported);
    assert_eq!((imported.traces.len(), imported.notices.len()), (traces().len(), 0), "{:?}", imported.notices);
    assert_eq!(export(&imported.traces, &[], Format::Otlp).unwrap(), exported);
    for (was, is) in traces().iter().zip(&imported.traces) {
        // the caller's side of the entry call is not in the file
        assert_eq!((&was.trace_id, &was.entry.id), (&is.trace_id, &is.entry.id));
        assert_eq!(was.gaps() - usize::from(was.entry.gap), is.gaps());
        let calls = |trace: &Trace| {
            let of = |c: &model::trace::Call| {
                (c.id.clone(), c.number, c.outcome, c.fault, c.gap, c.sent_us, c.ended_us, c.protocol)
            };
            trace.walk().into_iter().map(of).collect::<Vec<_>>()
        };
        assert_eq!(calls(was), calls(is));
    }
}

/// SDKs do not export reasons of gaps, so the vectors have none.
fn remove_reasons(value: &mut Value) {
    match value {
        Value::Array(list) => {
            list.retain(|attribute| attribute["key"] != "faultloom.gap.reason");
            list.iter_mut().for_each(remove_reasons);
        }
        Value::Object(object) => object.values_mut().for_each(remove_reasons),
        _ => {}
    }
}

#[test]
fn every_otlp_vector_is_restored_except_for_a_parent_outside_the_file() {
    for name in ["nested", "gap", "faulted", "truncated", "http-errors", "open", "faults-off", "nameless"] {
        let document = &vector(&format!("otlp-{name}"))["expect"];
        let imported = read(document);
        let mut exported = export(&imported.traces, &[], Format::Otlp).unwrap();
        remove_reasons(&mut exported);
        assert_eq!(&exported, document, "{name}");
    }
    let mut document = vector("otlp-with-parent")["expect"].clone();
    let imported = read(&document);
    assert!(imported.notices[0].contains("spans whose parent is not in the file: 1"), "{:?}", imported.notices);
    document["resourceSpans"][0]["scopeSpans"][0]["spans"][0].as_object_mut().unwrap().remove("parentSpanId");
    assert_eq!(export(&imported.traces, &[], Format::Otlp).unwrap(), document);
    // these cannot be restored exactly, but they can be read
    read(&vector("otlp-broken-off")["expect"]);
    read(&vector("otlp-huge-times")["expect"]);
}

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

fn span(id: u64, parent: u64, kind: Value, name: &str, ms: (u64, u64)) -> Value {
    let at = |ms: u64| (1_800_000_000_000 + ms) * 1_000_000;
    let mut out = json!({"traceId": TRACE, "spanId": format!("{id:016X}"), "name": name, "kind": kind,
        "startTimeUnixNano": at(ms.0), "endTimeUnixNano": at(ms.1).to_string()});
    if parent != 0 {
        out["parentSpanId"] = json!(format!("{parent:016x}"));
    }
    out
}

fn with(mut span: Value, attributes: Value) -> Value {
    let list = attributes.as_object().unwrap().iter().map(|(key, value)| {
        let value = match value {
            Value::String(text) => json!({"stringValue": text}),
            Value::Bool(yes) => json!({"boolValue": yes}),
            number => json!({"intValue": number}),
        };
        json!({"key": key, "value": value})
    });
    span["attributes"] = list.collect();
    span
}

fn of(service: &str, spans: Vec<Value>) -> Value {
    json!({"resourceSpans": [{"resource": {"attributes": [{"key": "service.name", "value": {"stringValue": service}}]},
        "scopeSpans": [{"scope": {"name": "io.opentelemetry.http"}, "spans": spans}]}]})
}

fn lines(documents: &[Value]) -> Imported {
    let text = documents.iter().map(|d| d.to_string() + "\n").collect::<String>();
    import("a.jsonl", text.as_bytes()).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn spans_of_two_opentelemetry_services_become_one_call() {
    let web = of(
        "web",
        vec![
            with(
                span(1, 0, json!("SPAN_KIND_SERVER"), "GET /orders", (0, 100)),
                json!({"http.response.status_code": 200}),
            ),
            span(2, 1, json!("SPAN_KIND_INTERNAL"), "render", (10, 90)),
            with(
                span(3, 2, json!(3), "GET", (20, 60)),
                json!({"server.address": "stock", "server.port": 8080, "http.response.status_code": "404"}),
            ),
            with(span(5, 2, json!(3), "SELECT orders", (70, 75)), json!({"db.system": "postgresql"})),
        ],
    );
    let stock =
        of("stock", vec![with(span(4, 3, json!(2), "GET /stock/{id}", (5, 15)), json!({"http.status_code": 404}))]);
    for read in [lines(&[web.clone(), stock.clone()]), lines(&[stock, web])] {
        assert_eq!((read.traces.len(), read.spans, read.notices.len()), (1, 5, 0), "{:?}", read.notices);
        let trace = &read.traces[0];
        assert_eq!((trace.entry.name.as_str(), trace.entry.outcome), ("GET /orders", Outcome::Replied { status: 200 }));
        let calls = trace.entry.calls();
        assert_eq!(calls.len(), 2);
        let (http, sql) = (&calls[0], &calls[1]);
        assert_eq!(
            (http.peer.as_str(), http.callee.as_str(), http.label()),
            ("stock:8080", "stock", "GET /stock/{id}")
        );
        assert_eq!((http.sent_us, http.ended_us, http.gap), (20_000, Some(60_000), false));
        assert_eq!((http.outcome, http.protocol), (Outcome::Replied { status: 404 }, Protocol::Http));
        // clocks differ: the callee keeps its own times
        assert_eq!(http.scope.as_ref().unwrap().start_us, 1_800_000_000_005_000);
        assert_eq!((sql.callee.as_str(), sql.gap, sql.outcome), ("postgresql", true, Outcome::Replied { status: 0 }));
    }
}

#[test]
fn an_opentelemetry_span_closes_a_gap_of_our_export() {
    let before = trace("otlp-gap", [9; 16]);
    let mut ours = export(std::slice::from_ref(&before), &[], Format::Otlp).unwrap();
    let call = &before.entry.calls()[0];
    assert!(call.gap);
    let mut hop = span(0x77, 0, json!(2), "GET /img", (0, 5));
    hop["traceId"] = json!(before.trace_id);
    hop["parentSpanId"] = json!(call.id);
    let hop = of("images", vec![hop]);
    ours["resourceSpans"].as_array_mut().unwrap().extend(hop["resourceSpans"].as_array().unwrap().clone());
    let read = read(&ours);
    assert_eq!((read.traces.len(), read.notices.len()), (1, 0));
    let call = &read.traces[0].entry.calls()[0];
    assert_eq!((call.callee.as_str(), call.gap), ("images", false));
    assert_eq!(read.traces[0].gaps(), before.gaps() - 1);
}

#[test]
fn incomplete_traces_have_notices() {
    let read = lines(&[of(
        "web",
        vec![
            span(1, 0, json!(2), "GET /a", (0, 10)),
            span(2, 99, json!(2), "GET /b", (20, 30)),
            span(3, 1, json!(2), "GET /c", (2, 4)),
            span(4, 5, json!(1), "circle", (2, 4)),
            span(5, 4, json!(1), "circle", (2, 4)),
            span(1, 0, json!(2), "again", (0, 10)),
        ],
    )]);
    assert_eq!(read.traces.len(), 2);
    let names: Vec<&str> = read.traces.iter().map(|t| t.entry.name.as_str()).collect();
    assert_eq!(names, ["GET /a", "GET /b"]);
    let all = read.notices.join("\n");
    for notice in [
        "duplicate spans, of which the first is used: 1",
        "spans whose parent is not in the file: 1",
        "root spans, each imported as a request of its own: 2",
        "spans that are their own ancestors, left out: 2",
        "calls recorded only by their callee: 1",
    ] {
        assert!(all.contains(notice), "{notice}: {all}");
    }
    assert_eq!(read.traces[0].entry.calls()[0].label(), "GET /c");
}

#[test]
fn a_client_span_without_a_parent_is_the_entry_call() {
    let read = lines(&[
        of(
            "load",
            vec![with(
                span(1, 0, json!(3), "GET", (0, 50)),
                json!({"http.response.status_code": 500, "peer.service": "web"}),
            )],
        ),
        of("web", vec![span(2, 1, json!(2), "GET /", (1, 40)), span(3, 1, json!(2), "GET /", (41, 49))]),
    ]);
    let entry = &read.traces[0].entry;
    assert_eq!((entry.caller.as_str(), entry.callee.as_str(), entry.sent_us), ("load", "web", 0));
    assert_eq!((entry.outcome, entry.number), (Outcome::Replied { status: 500 }, 0));
}

/// Calls below the 64th level were left out, and the others could not be displayed.
#[test]
fn a_chain_of_twenty_thousand_calls_is_imported_whole_and_exported_again() {
    let chain =
        (1..=40_000u64).map(|id| span(id, id - 1, json!(if id % 2 == 1 { 2 } else { 3 }), "/a.B/C", (id, id + 1)));
    let document = of("deep", chain.collect());
    let small_stack = std::thread::Builder::new().stack_size(256 << 10);
    let checked = small_stack.spawn(move || {
        let read = lines(&[document]);
        assert_eq!((read.traces[0].walk().len(), read.traces[0].depth()), (20_000, 20_000));
        assert_eq!((read.spans, read.notices.len()), (40_000, 0), "{:?}", read.notices);
        for format in [Format::Otlp, Format::Jaeger, Format::Zipkin, Format::Perfetto] {
            export(&read.traces, &[], format).unwrap();
        }
    });
    checked.unwrap().join().unwrap();
}

/// The keys of an object may be in any order: a service after its spans.
#[test]
fn a_resource_may_follow_its_spans() {
    let spans = json!([span(1, 0, json!(2), "", (0, 1))]).to_string();
    let resource = r#"{"attributes":[{"key":"service.name","value":{"stringValue":"web"}}]}"#;
    let text = format!(
        r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":{spans},"scope":{{"name":"faultloom"}}}}],"resource":{resource}}}]}}"#
    );
    let read = import("a.json", text.as_bytes()).unwrap();
    let entry = &read.traces[0].entry;
    assert_eq!((entry.callee.as_str(), entry.name.as_str(), entry.outcome), ("web", "web", Outcome::Open));
}

#[test]
fn invalid_files_are_refused_with_the_position() {
    let good = of("web", vec![span(1, 0, json!(2), "GET /", (0, 1))]);
    let broken = |path: &str, value: Value| {
        let mut document = good.clone();
        *document.pointer_mut(path).unwrap() = value;
        format!("{good}\n{document}")
    };
    let one = "/resourceSpans/0/scopeSpans/0/spans/0";
    for (text, message) in [
        (String::new(), "the file is empty"),
        ("{\"resourceSpans\":[]}".into(), "it contains no span"),
        ("{}".into(), "line 1: the object: resourceSpans is missing"),
        ("[1]".into(), "resourceSpans is missing"),
        (format!("\n{good}\n\n{{\n}}\n"), "a.json: line 4: the object: resourceSpans is missing"),
        ("{\"resourceSpans\":7}".into(), "line 1: resourceSpans: it is not a list"),
        (format!("{good}\n{{\"resourceSpans\":[{{"), "a.json: line 2 column 19"),
        (format!("{good}\nhello"), "a.json: line 2 column 1"),
        ("{\"resourceSpans\":[7]}".into(), "line 1: resourceSpans[0]: it is not an object"),
        ("{\"resourceSpans\":[{\"scopeSpans\":7}]}".into(), "line 1: resourceSpans[0].scopeSpans: it is not a list"),
        (broken(one, json!(7)), "line 2: resourceSpans[0].scopeSpans[0].spans[0]: it is not an object"),
        (broken(&format!("{one}/traceId"), json!("77")), "spans[0].traceId: '77' is not 32 hex digits"),
        (broken(&format!("{one}/traceId"), json!("0".repeat(32))), "an id must not be zero"),
        (broken(&format!("{one}/traceId"), json!("CvdlGRbNQ92ESOshHIAxnA==")), "is not 32 hex digits"),
        (broken(&format!("{one}/spanId"), json!(7)), "spans[0].spanId: an id must be a text of 16 hex digits"),
        (broken(&format!("{one}/kind"), json!("server")), "'server' is not a kind of span"),
        (broken(&format!("{one}/kind"), json!(9)), "9 is not a kind of span"),
        (broken(&format!("{one}/startTimeUnixNano"), json!("noon")), "spans[0].startTimeUnixNano: a time must be"),
        (broken(&format!("{one}/endTimeUnixNano"), json!(-1)), "spans[0].endTimeUnixNano: a time must be"),
    ] {
        let failure = refused(&text);
        assert!(failure.starts_with("error: a.json") && failure.contains(message), "{text}\n{failure}");
    }
}

proptest::proptest! {
    #[test]
    fn imports_of_any_spans_do_not_panic(edges in proptest::collection::vec((1..12u64, 0..12u64, 0..6u8, 0..50u64, 0..50u64), 1..30)) {
        let spans = edges.iter().map(|(id, parent, kind, from, to)| span(*id, *parent, json!(kind), "GET /", (*from, *to)));
        let read = lines(&[of("web", spans.collect())]);
        for trace in &read.traces {
            proptest::prop_assert!(trace.walk().len() < 30);
        }
        if read.traces.iter().any(|t| t.entry.scope.is_some()) {
            let exported = export(&read.traces, &[], Format::Otlp).unwrap();
            export(&read.traces, &[], Format::Perfetto).unwrap();
            export(&lines(&[exported]).traces, &[], Format::Jaeger).unwrap();
        }
    }

    #[test]
    fn imports_of_any_bytes_do_not_panic(text in "[\\[\\]{}\":,a-z0-9]{0,80}|\\{\"resourceSpans\":.{0,60}") {
        let _ = import("a.json", text.as_bytes());
    }
}
