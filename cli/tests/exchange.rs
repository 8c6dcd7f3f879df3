//! `export`, `import`, and envelopes for hops that support only OpenTelemetry, against a service inside the test.

use crate::support::service::{Service, TRUST};
use crate::support::{Completed, Home};
use serde_json::Value;
use wire::accept::Receiver;
use wire::bridge::{IncomingEnvelope, find_envelope};
use wire::trust::Trust;

struct World {
    home: Home,
    service: Service,
    trust: String,
}

impl World {
    fn new(name: &str) -> World {
        let home = Home::new(name);
        let trust = home.write("trust", TRUST).display().to_string();
        World { home, service: Service::start(), trust }
    }

    fn run(&self, arguments: &[&str]) -> Completed {
        self.home.run(arguments)
    }

    /// A verb with the service's URL.
    fn send(&self, verb: &str, more: &[&str]) -> Completed {
        self.run(&[&[verb, &self.service.url, "--trust", &self.trust][..], more].concat())
    }

    /// Records one request and returns the run's id.
    fn record(&self) -> String {
        let json = self.send("record", &["--json"]).exits(0).json();
        json["run"].as_str().unwrap().to_owned()
    }

    fn export(&self, run: &str, format: &str) -> Value {
        self.run(&["export", run, "--format", format]).exits(0).json()
    }
}

#[test]
fn a_bridged_envelope_travels_in_baggage_as_well() {
    let world = World::new("bridge");
    world.send("record", &[]).exits(0);
    let headers = world.service.last();
    assert!(!headers.contains_key("baggage") && !headers.contains_key("traceparent"), "{headers:?}");

    let json = world.send("record", &["--bridge", "--json", "-H", "baggage: user=alice"]).exits(0).json();
    let headers = world.service.last();
    assert!(headers["baggage"].starts_with("user=alice,faultloom="), "{headers:?}");
    // `baggage` carries the same envelope, and the entry's call
    let own = headers["x-faultloom"].as_str();
    let found = find_envelope(|name| headers.get(name).filter(|_| name != "x-faultloom").map(String::as_str));
    let IncomingEnvelope::Baggage { envelope, call } = found else { panic!("{found:?}") };
    assert_eq!((envelope, json["trace"]["entry"]["id"].as_str()), (own, Some(format!("{call:016x}").as_str())));
    assert_eq!(&headers["traceparent"][3..35], json["trace"]["trace_id"].as_str().unwrap());
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let accepted = Receiver::new(Trust::parse(TRUST).unwrap()).accept_bridged(envelope, call, now, 0).unwrap();
    assert!(accepted.signed.bridge && accepted.signed.run.is_some());

    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    world.send("record", &["--bridge", "-H", &format!("traceparent: {parent}")]).exits(0);
    assert_eq!(world.service.last()["traceparent"], parent, "the user's own stays");

    let json = world.send("sweep", &["--bridge", "-s", "services", "--json"]).json();
    assert!(world.service.last().contains_key("baggage"));
    let again = json["sweep"]["bugs"][0]["again"].as_str().or_else(|| json["bugs"][0]["again"].as_str()).unwrap();
    assert!(again.contains("--bridge"), "{again}");
}

#[test]
fn an_exported_recording_comes_back_as_a_run_like_any_other() {
    let world = World::new("exchange");
    let run = world.record();
    let file = world.home.file("out/trace.json");
    let said = world.run(&["export", &run, "-o", &file.display().to_string()]).exits(0).out;
    assert_eq!(said.trim(), file.display().to_string());
    let mut otlp: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(otlp, world.export("last", "otlp"), "otlp and the newest run are the defaults");

    let ran = world.run(&["import", &file.display().to_string(), "--json"]).exits(0);
    let json = ran.json();
    assert_eq!((&json["spans"], &json["traces"], &json["verdict"]), (&4.into(), &1.into(), &"pass".into()));
    assert_eq!(json["notices"], serde_json::json!([]));
    let imported = json["run"].as_str().unwrap();
    world.run(&["show", imported]).exits(0).says("import trace.json").says("GET /orders").says("gap");
    world.run(&["diff", &run, imported]).exits(0).says("0 different, 2 the same");
    world.run(&["runs"]).exits(0).says("import trace.json");
    let page = world.run(&["report", imported]).exits(0).out;
    assert!(std::fs::read_to_string(world.home.file(page.trim())).unwrap().contains("GET /logo.png"));
    // the verdict is on a request that was sent, which an import was not
    let root = otlp["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["attributes"].as_array_mut().unwrap();
    let verdict = root.iter().position(|attribute| attribute["key"] == "faultloom.verdict").expect("a verdict");
    root.remove(verdict);
    assert_eq!(world.export(imported, "otlp"), otlp);
}

#[test]
fn every_format_has_the_same_calls() {
    let world = World::new("formats");
    let run = world.record();
    let jaeger = world.export(&run, "jaeger");
    assert_eq!(jaeger["data"][0]["spans"].as_array().unwrap().len(), 4);
    assert_eq!(jaeger["data"][0]["processes"]["p2"]["serviceName"], "stock");
    let zipkin = world.export(&run, "zipkin");
    assert_eq!(zipkin[1]["remoteEndpoint"]["serviceName"], "stock");
    let perfetto = world.export(&run, "perfetto");
    let slices = perfetto["traceEvents"].as_array().unwrap().iter().filter(|e| e["ph"] == "X").count();
    assert_eq!(slices, 4);
    // several requests are several traces
    let json = world.send("record", &["--json", "-n", "3"]).exits(0).json();
    let many = world.export(json["run"].as_str().unwrap(), "jaeger");
    assert_eq!(many["total"], 3);
}

#[test]
fn of_a_sweep_the_good_run_or_a_bug_is_exported() {
    let world = World::new("sweep-export");
    world.send("sweep", &["-s", "services"]).exits(1).says("stock");
    let good = world.export("last", "zipkin");
    assert!(good.as_array().unwrap().iter().all(|span| span["tags"]["error"].is_null()), "{good}");
    let bug = world.run(&["export", "--bug", "1", "--format", "perfetto"]).exits(0).json();
    let marks = bug["traceEvents"].as_array().unwrap().iter().filter(|e| e["ph"] == "i");
    let marks: Vec<&str> = marks.filter_map(|e| e["name"].as_str()).collect();
    assert!(marks.contains(&"fault: stock unavailable"), "{marks:?}");
    world.run(&["export", "--bug", "9"]).exits(2).says("there is no bug 9: this sweep found 1").says("show");
}

#[test]
fn unsuitable_runs_and_files_are_refused() {
    let world = World::new("exchange-refused");
    world.run(&["export"]).exits(2).says("there is no run 'last'");
    let run = world.record();
    world.run(&["export", &run, "--bug", "1"]).exits(2).says("only a sweep has bugs");
    world.run(&["export", &run, "--format", "svg"]).exits(2).says("perfetto");
    let into = world.home.write("a-file", "").join("x.json").display().to_string();
    world.run(&["export", &run, "-o", &into]).exits(3).says("cannot create");

    let runs = world.run(&["runs", "--json"]).exits(0).out;
    world.run(&["import", "absent.json"]).exits(2).says("absent.json cannot be read").says("next:");
    world.home.write("trace.txt", "{\"resourceSpans\": [\n  {");
    world.run(&["import", "trace.txt"]).exits(2).says("trace.txt: line 2 column 3").says("next:");
    world.home.write("metrics.json", "{\"resourceMetrics\": []}");
    let json = world.run(&["import", "metrics.json", "--json"]).exits(2).json();
    assert_eq!(json["error"]["what"], "metrics.json: line 1: the object: resourceSpans is missing");
    // zeros are no JSON, however many there are
    let huge = std::fs::File::create(world.home.file("huge.json")).unwrap();
    huge.set_len((64 << 20) + 1).unwrap();
    world.run(&["import", "huge.json"]).exits(2).says("huge.json: line 1 column 1");
    assert_eq!(world.run(&["runs", "--json"]).exits(0).out, runs, "nothing was kept of it");
}

#[test]
fn an_incomplete_trace_is_imported_and_unknown() {
    let world = World::new("incomplete");
    let run = world.record();
    let mut otlp = world.export(&run, "otlp");
    otlp["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array_mut().unwrap().remove(0);
    let file = world.home.write("part.json", &otlp.to_string()).display().to_string();
    world
        .run(&["import", &file])
        .exits(0)
        .says("spans whose parent is not in the file: 2")
        .says("a request of its own: 2");
    let runs = world.run(&["runs", "-n", "1", "--json"]).exits(0).json();
    assert_eq!(runs[0]["verdict"], "unknown");
}

fn otlp_span(trace: u64, id: u64, parent: u64, at: u64) -> String {
    let kind = if id % 2 == 1 { 2 } else { 3 };
    let parent = if parent == 0 { String::new() } else { format!("\"parentSpanId\":\"{parent:016x}\",") };
    format!(
        "{{\"traceId\":\"{trace:032x}\",\"spanId\":\"{id:016x}\",{parent}\"name\":\"/shop.S/Call{}\",\"kind\":{kind},\
         \"startTimeUnixNano\":\"{}\",\"endTimeUnixNano\":\"{}\"}}",
        id % 50,
        at * 1000,
        (at + 500) * 1000
    )
}

/// One document with many resources; each has `per_resource` spans.
fn write_otlp(path: &std::path::Path, spans: impl Iterator<Item = String>, per_resource: usize) {
    use std::io::Write;
    let mut file = std::io::BufWriter::new(std::fs::File::create(path).unwrap());
    write!(file, "{{\"resourceSpans\":[").unwrap();
    let head = |n: usize| {
        format!(
            "{{\"resource\":{{\"attributes\":[{{\"key\":\"service.name\",\"value\":{{\"stringValue\":\"service-{}\"}}}}]}},\
             \"scopeSpans\":[{{\"spans\":[",
            n % 40
        )
    };
    for (i, span) in spans.enumerate() {
        match (i % per_resource, i) {
            (0, 0) => file.write_all(head(0).as_bytes()).unwrap(),
            (0, _) => write!(file, "]}}]}},{}", head(i / per_resource)).unwrap(),
            _ => file.write_all(b",").unwrap(),
        }
        file.write_all(span.as_bytes()).unwrap();
    }
    writeln!(file, "]}}]}}]}}").unwrap();
    file.flush().unwrap();
}

/// `import` accepted the chain and kept 64 levels; then `show` and `report` failed with "recursion limit exceeded".
#[test]
fn a_chain_of_twenty_thousand_calls_is_imported_shown_and_reported() {
    let world = World::new("chain");
    let file = world.home.file("chain.json");
    write_otlp(&file, (1..=40_000).map(|id| otlp_span(7, id, id - 1, id)), 2);
    let json = world.run(&["import", "chain.json", "--json"]).exits(0).json();
    assert_eq!((&json["spans"], &json["traces"], &json["verdict"]), (&40_000.into(), &1.into(), &"pass".into()));
    assert_eq!(json["summary"]["calls"], 20_000);
    world.run(&["import", "chain.json"]).exits(0).says("… 19,601 more calls (--all draws them)");
    world.run(&["show"]).exits(0).says("… 19,601 more calls (--all draws them)");
    let all = world.run(&["show", "--all"]).exits(0).out;
    assert!(all.lines().count() > 20_000 && all.len() < 10 << 20, "{} lines", all.lines().count());
    let shown = world.run(&["show", "--json"]).exits(0).json();
    assert_eq!(shown["traces"][0]["below"].as_array().unwrap().len(), 20_000);
    let page = world.run(&["report"]).exits(0).out;
    let html = std::fs::read_to_string(world.home.file(page.trim())).unwrap();
    assert!(html.contains("20,000 calls") && html.contains("19,900 calls below level 100 not drawn"));
    world.run(&["diff", "last", "last"]).exits(0);
    let exported = world.export("last", "otlp");
    assert!(exported["resourceSpans"].as_array().unwrap().len() > 1);
}

/// Files of more than 64 MiB were refused.
#[test]
fn a_million_spans_are_imported_in_bounded_memory() {
    let world = World::new("million");
    let spans: u64 = if crate::support::soak() { 1_000_000 } else { 100_000 };
    let file = world.home.file("many.json");
    // traces of 50 spans each, whose spans are all over the file
    let traces = spans / 50;
    let span = |i: u64| {
        let (trace, id) = (i % traces + 1, i / traces + 1);
        otlp_span(trace, id, id / 2, trace * 1000 + id)
    };
    write_otlp(&file, (0..spans).map(span), 100);
    let bytes = std::fs::metadata(&file).unwrap().len();
    // Python prints the peak of its child's resident memory in kilobytes
    let script = "import resource,subprocess,sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); \
                  print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)";
    let peak = |arguments: &[&str]| {
        let run = std::process::Command::new("python3")
            .args(["-c", script, env!("CARGO_BIN_EXE_faultloom")])
            .args(arguments)
            .current_dir(&world.home.path)
            .output()
            .unwrap();
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        String::from_utf8_lossy(&run.stdout).trim().parse::<u64>().unwrap() << 10
    };
    let imported = peak(&["import", "many.json", "--json"]);
    let (shown, reported) = (peak(&["show"]), peak(&["report"]));
    let exported = peak(&["export", "-o", "exported.json"]);
    println!(
        "{spans} spans, {bytes} bytes; peak memory: import {imported}, show {shown}, report {reported}, export {exported}"
    );
    assert!(imported < 60_000_000 + 220 * spans, "{imported} bytes for {spans} spans");
    // the traces, without the document: with it, it was 1.9 kB per span
    assert!(exported < 40_000_000 + 800 * spans, "{exported} bytes for {spans} spans");
    world.run(&["show"]).exits(0).says("more request");
    let runs = world.run(&["runs", "-n", "1", "--json"]).exits(0).json();
    assert_eq!(runs[0]["summary"]["requests"], traces);
}
