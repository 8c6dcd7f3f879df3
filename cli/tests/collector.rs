//! Requests from outside, without an envelope, are sampled by the service that receives them and exported to an
//! OpenTelemetry Collector: each once, completely, as one trace. Every language calls every other, with every kind of
//! call. With `lab/relay` and `lab/collector`.

use crate::support::processes::ChildProcess;
use crate::support::relays::{KINDS, LANGUAGES, Relays};
use crate::support::{Home, free_ports, repository, skipped, wait_for};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// From the last request to the last trace in the Collector's file.
const ARRIVAL: Duration = Duration::from_secs(30);

struct Collector {
    process: ChildProcess,
    port: u16,
    file: PathBuf,
    /// Holds the Collector's file and log.
    _home: Home,
}

impl Collector {
    fn start() -> Option<Collector> {
        let root = repository();
        let program = root.join("out/collector/collector");
        if !program.exists() {
            skipped("out/collector/collector is not built (make test builds it)");
            return None;
        }
        let home = Home::new("collector");
        let (port, file, log) = (free_ports(1), home.file("traces.json"), home.file("log"));
        let mut command = Command::new(program);
        command.arg("--config").arg(format!("file:{}", root.join("lab/collector/collector.yaml").display()));
        command.env("COLLECTOR_ENDPOINT", format!("127.0.0.1:{port}")).env("COLLECTOR_FILE", &file);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log).unwrap());
        let mut process = ChildProcess::start(&mut command);
        wait_for("the Collector", || {
            let ended = process.0.try_wait().unwrap();
            assert!(ended.is_none(), "{ended:?}: {}", std::fs::read_to_string(&log).unwrap());
            TcpStream::connect(("127.0.0.1", port)).ok()
        });
        Some(Collector { process, port, file, _home: home })
    }

    fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}/v1/traces", self.port)
    }

    /// The spans in its file. A last line that is not complete yet is left out.
    fn spans(&self) -> Vec<Span> {
        let text = std::fs::read_to_string(&self.file).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().flat_map(|line| spans(&serde_json::from_str(line).expect("a line of OTLP"))).collect()
    }

    /// Waits for a trace of each journey.
    fn wait_for(&self, journeys: &BTreeSet<Journey>, since_unix_ns: u64) {
        let begin = Instant::now();
        loop {
            let traces = traces(self.spans(), since_unix_ns);
            let (fit, unfit): (Vec<_>, Vec<_>) = traces.values().map(|spans| journey(spans)).partition(Result::is_ok);
            let found: BTreeSet<Journey> = fit.into_iter().flatten().map(|(journey, _)| journey).collect();
            let missing: Vec<&Journey> = journeys.difference(&found).collect();
            if missing.is_empty() {
                return;
            }
            let late = begin.elapsed() > ARRIVAL;
            assert!(!late, "{} were never exported: {missing:?}; others: {unfit:?}", missing.len());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Afterwards everything that it received is in the file.
    fn stop(&mut self) {
        let pid = self.process.pid();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        wait_for("the Collector's end", || self.process.0.try_wait().unwrap());
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Span {
    service: String,
    trace: String,
    id: String,
    parent: Option<String>,
    name: String,
    kind: u64,
    times_unix_ns: [u64; 2],
    /// Its status is ERROR.
    is_error: bool,
}

const STATUS_ERROR: u64 = 2;
const SERVER: u64 = 2;
const CLIENT: u64 = 3;

/// The spans of one line of the Collector's file, or of one export request.
fn spans(request: &Value) -> Vec<Span> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let number = |value: &Value| text(value).parse().expect("a time");
    let mut found = Vec::new();
    for resource in list(&request["resourceSpans"]) {
        let attributes = list(&resource["resource"]["attributes"]);
        let service = attributes.iter().find(|a| a["key"] == "service.name");
        let service = service.map(|a| text(&a["value"]["stringValue"])).unwrap_or_default();
        for span in list(&resource["scopeSpans"]).iter().flat_map(|scope| list(&scope["spans"])) {
            found.push(Span {
                service: service.clone(),
                trace: text(&span["traceId"]),
                id: text(&span["spanId"]),
                parent: Some(text(&span["parentSpanId"])).filter(|parent| !parent.is_empty()),
                name: text(&span["name"]),
                kind: span["kind"].as_u64().unwrap_or_default(),
                times_unix_ns: [number(&span["startTimeUnixNano"]), number(&span["endTimeUnixNano"])],
                is_error: span["status"]["code"] == STATUS_ERROR,
            });
        }
    }
    found
}

/// Requests since then, with their spans.
fn traces(spans: Vec<Span>, since_unix_ns: u64) -> BTreeMap<String, Vec<Span>> {
    let mut traces: BTreeMap<String, Vec<Span>> = BTreeMap::new();
    for span in spans.into_iter().filter(|span| span.times_unix_ns[0] >= since_unix_ns) {
        traces.entry(span.trace.clone()).or_default().push(span);
    }
    traces
}

/// Caller, kind of call, callee.
type Journey = (String, String, String);

fn all_journeys() -> Vec<(usize, &'static str, usize)> {
    KINDS.iter().flat_map(|kind| (0..16).map(move |i| (i / 4, *kind, i % 4))).collect()
}

fn named(caller: usize, kind: &str, callee: usize) -> Journey {
    (LANGUAGES[caller].to_owned(), kind.to_owned(), LANGUAGES[callee].to_owned())
}

/// The journey of a trace, and the parent of its first span. The error describes a defect of the trace.
fn journey(spans: &[Span]) -> Result<(Journey, Option<String>), String> {
    let [a, b, c] = spans else { return Err(format!("{} spans instead of 3: {spans:?}", spans.len())) };
    let client = [a, b, c].into_iter().find(|span| span.kind == CLIENT).ok_or(format!("no call in {spans:?}"))?;
    let server = |fits: &dyn Fn(&Span) -> bool| {
        spans.iter().find(|span| span.kind == SERVER && fits(span)).ok_or(format!("not linked: {spans:?}"))
    };
    let first = server(&|span| client.parent.as_ref() == Some(&span.id))?;
    let second = server(&|span| span.parent.as_ref() == Some(&client.id))?;
    if first.id == second.id || first.service != client.service || first.name != "GET /relay" {
        return Err(format!("not a journey: {spans:?}"));
    }
    let kind = match client.name.strip_prefix("/relay.Relay/") {
        Some(method) => method.to_lowercase(),
        None => "http".to_owned(),
    };
    if second.name != client.name {
        return Err(format!("two names of one call: {spans:?}"));
    }
    if spans.iter().any(|span| span.is_error) {
        return Err(format!("a failed call: {spans:?}"));
    }
    Ok(((first.service.clone(), kind, second.service.clone()), first.parent.clone()))
}

/// Sends a request as any client does, with these header lines. The reply must contain the whole journey and no
/// history.
fn visit(relays: &Relays, (caller, kind, callee): (usize, &str, usize), headers: &str) {
    let reply = get(relays.port(caller), &[relays.stop(kind, callee)], headers);
    let words = format!("{} {kind} {}: {reply}", LANGUAGES[caller], LANGUAGES[callee]);
    assert!(reply.starts_with("HTTP/1.1 200") && !reply.to_lowercase().contains("x-faultloom"), "{words}");
    let visits = reply.matches(&format!("\"{}\"", LANGUAGES[callee])).count();
    assert!(reply.contains("\"failure\"") && visits > usize::from(caller == callee), "{words}");
}

fn get(port: u16, stops: &[String], headers: &str) -> String {
    let path = Relays::path(stops);
    let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(client, "GET {path} HTTP/1.1\r\nhost: relay\r\n{headers}connection: close\r\n\r\n").unwrap();
    let mut reply = String::new();
    client.read_to_string(&mut reply).unwrap();
    reply
}

/// A relay without keys, as a gRPC client without SDK. Returns its HTTP port.
fn outsider() -> (ChildProcess, u16) {
    let port = free_ports(2);
    let mut command = Command::new(repository().join("out/relay/relay"));
    command.env("NAME", "outsider").env("PORT", port.to_string()).env("GRPC_PORT", (port + 1).to_string());
    let mut process = ChildProcess::start(command.stdin(Stdio::null()));
    wait_for("the outsider", || {
        assert!(process.is_running());
        TcpStream::connect(("127.0.0.1", port)).ok()
    });
    (process, port)
}

/// The service that was called by gRPC in a trace, and the number of its calls. The error describes a defect of the
/// trace.
fn reached(spans: &[Span]) -> Result<(String, usize), String> {
    let (clients, servers): (Vec<&Span>, Vec<&Span>) = spans.iter().partition(|span| span.kind == CLIENT);
    let (first, callees): (Vec<&Span>, Vec<&Span>) = servers.into_iter().partition(|span| span.parent.is_none());
    let [first] = first[..] else { return Err(format!("{} beginnings: {spans:?}", first.len())) };
    let below_first = clients.iter().all(|span| span.parent.as_ref() == Some(&first.id));
    let answered: BTreeSet<&String> = callees.iter().filter_map(|span| span.parent.as_ref()).collect();
    let linked = below_first && answered == clients.iter().map(|span| &span.id).collect();
    if !first.name.contains('/') {
        return Err(format!("the first span of {} is named {}, not after its call", first.service, first.name));
    }
    if linked && callees.len() == clients.len() {
        Ok((first.service.clone(), clients.len()))
    } else {
        Err(format!("not linked: {spans:?}"))
    }
}

#[test]
fn requests_from_outside_are_exported_once_and_completely() {
    let Some(mut collector) = Collector::start() else { return };
    let settings = [("FAULTLOOM_SAMPLE", "1/1"), ("FAULTLOOM_EXPORT", &collector.endpoint())];
    let Some(relays) = Relays::up("collector-relays", &settings) else { return };
    let wanted: BTreeSet<Journey> = all_journeys().into_iter().map(|(a, kind, b)| named(a, kind, b)).collect();

    // health checks of the relays are requests from outside too
    let begin = now_unix_ns();
    for journey in all_journeys() {
        visit(&relays, journey, "");
    }
    collector.wait_for(&wanted, begin);
    imported_whole(&relays.home, &collector);

    // of callers with another tracer only `traceparent` is used
    let ids_of = |n: usize| (format!("{:032x}", 0xabc_0000 + n), format!("{:016x}", 0xdef_0000 + n));
    let second = now_unix_ns();
    for (n, journey) in all_journeys().into_iter().enumerate() {
        let (trace, parent) = ids_of(n);
        visit(&relays, journey, &format!("traceparent: 00-{trace}-{parent}-01\r\n"));
    }
    collector.wait_for(&wanted, second);

    // gRPC requests, unary or streamed, are sampled too
    let third = now_unix_ns();
    let (_outsider, port) = outsider();
    let entries: Vec<(&str, usize)> = KINDS[1..].iter().flat_map(|kind| (0..4).map(move |to| (*kind, to))).collect();
    for (kind, to) in &entries {
        let reply = get(port, &[relays.stop(kind, *to), relays.stop("call", (to + 1) % 4)], "");
        assert!(reply.starts_with("HTTP/1.1 200") && reply.contains(LANGUAGES[(to + 1) % 4]), "{kind}: {reply}");
    }
    let drawn = || Some(traces(collector.spans(), third)).filter(|traces| traces.len() >= entries.len());
    wait_for("requests by gRPC", drawn);

    // when they stop, the relays export and the Collector writes what is left
    drop(relays);
    collector.stop();
    let spans = collector.spans();
    let ids: BTreeSet<(&str, &str)> = spans.iter().map(|span| (&*span.trace, &*span.id)).collect();
    assert_eq!(ids.len(), spans.len(), "spans that came twice");

    let by_grpc = traces(spans.clone(), third);
    let mut traces = traces(spans, begin);
    traces.retain(|id, _| !by_grpc.contains_key(id));
    for (n, (caller, kind, callee)) in all_journeys().into_iter().enumerate() {
        let (trace, parent) = ids_of(n);
        let spans = traces.remove(&trace).unwrap_or_else(|| panic!("no trace {trace}"));
        assert_eq!(journey(&spans).unwrap(), (named(caller, kind, callee), Some(parent)));
    }
    let plain: Vec<(Journey, Option<String>)> = traces.values().map(|spans| journey(spans).unwrap()).collect();
    let found: BTreeSet<Journey> = plain.iter().map(|(journey, _)| journey.clone()).collect();
    assert_eq!((found, plain.len()), (wanted, all_journeys().len()), "each journey is one trace");
    assert!(plain.iter().all(|(_, parent)| parent.is_none()), "nobody is above the first service");

    let mut reached: Vec<(String, usize)> = by_grpc.values().map(|spans| reached(spans).unwrap()).collect();
    // the journey of a stream happens twice
    let calls = |kind: &str| if kind == "call" { 1 } else { 2 };
    let mut expected: Vec<_> = entries.iter().map(|(kind, to)| (LANGUAGES[*to].to_owned(), calls(kind))).collect();
    reached.sort();
    expected.sort();
    assert_eq!(reached, expected);
}

fn now_unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
}

/// The Collector's file is imported as a run, and the run's export has the same spans.
fn imported_whole(home: &Home, collector: &Collector) {
    let spans: BTreeSet<Span> = collector.spans().into_iter().collect();
    let requests = spans.iter().filter(|span| span.parent.is_none()).count();
    let json = home.run(&["import", &collector.file.display().to_string(), "--json"]).exits(0).json();
    assert_eq!((&json["verdict"], &json["notices"]), (&"pass".into(), &serde_json::json!([])));
    assert_eq!((&json["traces"], &json["spans"]), (&requests.into(), &spans.len().into()));
    // on a busy machine a health check may be canceled
    let failures = spans.iter().filter(|span| span.parent.is_none() && span.is_error).count();
    assert_eq!(json["summary"]["failures"], failures, "{spans:?}");
    let run = json["run"].as_str().unwrap();
    home.run(&["show", run, "--all"]).exits(0).says("GET /relay").says("└─ Talk");
    let exported = home.run(&["export", run]).exits(0).json();
    assert_eq!(
        self::spans(&exported).into_iter().collect::<BTreeSet<Span>>(),
        spans,
        "exported again, they are the same"
    );
}
