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
    let otlp: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
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
    let huge = std::fs::File::create(world.home.file("huge.json")).unwrap();
    huge.set_len((64 << 20) + 1).unwrap();
    world.run(&["import", "huge.json"]).exits(2).says("huge.json is larger than 64 MiB");
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
