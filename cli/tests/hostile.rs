//! Callees and callers that do not follow the format: which envelope and which history counts is the same in all
//! languages, and what cannot be read is a gap at its call. The first two tests with `lab/relay`.

use crate::support::Home;
use crate::support::relays::{LANGUAGES, Relays};
use crate::support::service::{Service, TRUST};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{SystemTime, UNIX_EPOCH};
use wire::accept::Receiver;
use wire::carrier::{MAGIC, append_tail};
use wire::envelope::{Accept, Envelope, Hop, Signed};
use wire::history;
use wire::scope::Scope;
use wire::trust::{Purpose, Trust};

const PAGE: &[u8] = br#"{"names":["callee"],"failure":""}"#;

fn now_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as u64
}

fn trust_of(home: &Home) -> Trust {
    let file = home.run(&["ps", "--json"]).exits(0).json()["state"]["trust_file"].as_str().unwrap().to_owned();
    Trust::parse(&std::fs::read_to_string(file).unwrap()).unwrap()
}

/// The history that a service with this name returns.
fn history_of(envelope: &Envelope, service: &str) -> Vec<u8> {
    let mut scope = Scope::new(service, envelope, now_us(), true);
    scope.finish(200, 300);
    scope.history("")
}

/// What a callee sends back: our headers, in their order, and the bytes of the body.
fn replies(case: &str, envelope: &Envelope) -> (Vec<(&'static str, String)>, Vec<u8>) {
    let text = |service: &str| URL_SAFE_NO_PAD.encode(history_of(envelope, service));
    let tail = append_tail(PAGE, &history_of(envelope, "tail"));
    let marked = |body: Vec<u8>| (vec![("x-faultloom-reply", "tail".to_owned())], body);
    let ending = |content: &[u8], length: usize| [PAGE, content, &(length as u32).to_be_bytes(), &MAGIC].concat();
    let history = history_of(envelope, "tail");
    match case {
        "tail" => marked(tail),
        "text-in-place-of-a-history" => marked(ending(b"hello", 5)),
        "length-too-large" => marked(ending(&history, history.len() + 7)),
        "length-too-small" => marked(ending(&history, history.len() - 3)),
        "length-0" => marked(ending(b"", 0)),
        "two-histories" => {
            (vec![("x-faultloom-history", text("first")), ("x-faultloom-history", text("last"))], PAGE.to_vec())
        }
        "joined-histories" => {
            (vec![("x-faultloom-history", format!("{}, {}", text("first"), text("last")))], PAGE.to_vec())
        }
        "last-history-unusable" => {
            (vec![("x-faultloom-history", text("first")), ("x-faultloom-history", "!".to_owned())], PAGE.to_vec())
        }
        "gap-then-tail" => {
            (vec![("x-faultloom-reply", "gap".to_owned()), ("x-faultloom-reply", "tail".to_owned())], tail)
        }
        "tail-then-gap" => {
            (vec![("x-faultloom-reply", "tail".to_owned()), ("x-faultloom-reply", "gap".to_owned())], tail)
        }
        "tail-and-history" => {
            (vec![("x-faultloom-history", text("header")), ("x-faultloom-reply", "tail".to_owned())], tail)
        }
        "history-and-no-tail" => {
            (vec![("x-faultloom-history", text("header")), ("x-faultloom-reply", "tail".to_owned())], PAGE.to_vec())
        }
        other => panic!("no case {other}"),
    }
}

/// The failure on the caller's page, and the service whose history counts ("": a gap).
const EXPECTED: [(&str, &str, &str); 12] = [
    ("tail", "", "tail"),
    ("text-in-place-of-a-history", "garbled", ""),
    ("length-too-large", "garbled", ""),
    ("length-too-small", "garbled", ""),
    ("length-0", "garbled", ""),
    ("two-histories", "", "last"),
    ("joined-histories", "", "last"),
    ("last-history-unusable", "", ""),
    ("gap-then-tail", "", "tail"),
    ("tail-then-gap", "garbled", ""),
    ("tail-and-history", "", "tail"),
    ("history-and-no-tail", "", "header"),
];

/// A callee that replies as the last stop of its request says. Ends with the test's process.
fn callee(trust: Trust) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let trust = trust.clone();
            std::thread::spawn(move || serve(&stream, &trust));
        }
    });
    port
}

fn serve(stream: &TcpStream, trust: &Trust) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let (mut request, mut line, mut envelope) = (String::new(), String::new(), None);
        reader.read_line(&mut request).ok().filter(|n| *n > 0)?;
        while reader.read_line(&mut line).ok()? > 2 {
            if let Some((_, value)) = line.split_once(':').filter(|(name, _)| name.eq_ignore_ascii_case("x-faultloom"))
            {
                envelope = Some(value.trim().to_owned());
            }
            line.clear();
        }
        let envelope = Receiver::new(trust.clone()).accept_header(&envelope?, now_us() / 1_000_000, 0).ok()?;
        let case = request.split_once("stop=")?.1.split([' ', '&']).next()?;
        let (headers, body) = replies(case, &envelope);
        let mut head =
            format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n", body.len());
        headers.iter().for_each(|(name, value)| head += &format!("{name}: {value}\r\n"));
        let mut out = stream;
        out.write_all(&[head.as_bytes(), b"\r\n", &body].concat()).ok()?;
    }
}

#[test]
fn every_language_reads_repeated_histories_and_wrong_tails_alike() {
    let Some(relays) = Relays::up("hostile-callee", &[]) else { return };
    let port = callee(trust_of(&relays.home));
    let mut problems = Vec::new();
    for (caller, language) in LANGUAGES.iter().enumerate() {
        for (case, failure, service) in EXPECTED {
            let path = Relays::path(&[format!("stop=http+127.0.0.1:{port}"), format!("stop={case}")]);
            let url = format!("http://127.0.0.1:{}{path}", relays.port(caller));
            let json = relays.home.run(&["record", "--json", &url]).json();
            let page: Value = serde_json::from_str(json["body"].as_str().unwrap_or_default()).unwrap_or_default();
            let call = &json["trace"]["entry"]["scope"]["calls"][0];
            let counted = call["scope"]["service"].as_str().unwrap_or_default();
            if page["failure"] != failure || counted != service || call["gap"] != service.is_empty() {
                problems.push(format!("{language} {case}: page {page}, history of '{counted}', gap {}", call["gap"]));
            }
        }
    }
    assert!(problems.is_empty(), "{} problems\n{}", problems.len(), problems.join("\n"));
}

/// An envelope for a call with this id, as text of a header.
fn envelope(trust: &Trust, call: u64) -> String {
    let key = trust.key_for(Purpose::Trace).unwrap();
    let signed = Signed {
        trace_id: [7; 16],
        run: None,
        expires: now_us() / 1_000_000 + 60,
        key_id: key.id.clone(),
        environment: trust.environment.clone(),
        history: true,
        bridge: false,
        plan: None,
    };
    let mut bytes = signed.sign(key).unwrap();
    Hop { call, accept: Accept::default(), receive_limit: 0, evidence: vec![] }.put(&mut bytes);
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The id in the history of the reply to a request with these lines of our header; None: no history.
fn answered(port: u16, lines: &[&str]) -> Option<u64> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let lines: String = lines.iter().map(|line| format!("x-faultloom: {line}\r\n")).collect();
    write!(stream, "GET /relay HTTP/1.1\r\nhost: relay\r\n{lines}connection: close\r\n\r\n").unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    let history = reply.lines().find_map(|line| {
        line.split_once(": ")
            .filter(|(name, _)| name.eq_ignore_ascii_case("x-faultloom-history"))
            .map(|(_, value)| value)
    })?;
    Some(history::decode(&URL_SAFE_NO_PAD.decode(history).unwrap()).unwrap().call)
}

#[test]
fn every_language_takes_the_last_of_repeated_envelopes() {
    let Some(relays) = Relays::up("hostile-caller", &[]) else { return };
    let trust = trust_of(&relays.home);
    let (first, last) = (envelope(&trust, 1), envelope(&trust, 2));
    let (joined, joined_tab) = (format!("{first}, {last}"), format!("{first},\t{last}"));
    let (refused, empty) = (format!("{first}, AQ"), format!("{first},"));
    let mut problems = Vec::new();
    for (callee, language) in LANGUAGES.iter().enumerate() {
        for (lines, expected) in [
            (vec![&*first], Some(1)),
            (vec![&*first, &*last], Some(2)),
            (vec![&*joined], Some(2)),
            (vec![&*joined_tab], Some(2)),
            (vec![&*last, &*joined], Some(2)),
            (vec![&*first, "AQ"], None),
            (vec![&*refused], None),
            (vec![&*empty], None),
            (vec![&*first, ""], None),
            (vec!["AQ", &*first], Some(1)),
        ] {
            let got = answered(relays.port(callee), &lines);
            if got != expected {
                let lengths: Vec<usize> = lines.iter().map(|line| line.len()).collect();
                problems.push(format!("{language}, lines of {lengths:?} characters: {got:?}, expected {expected:?}"));
            }
        }
    }
    assert!(problems.is_empty(), "{} problems\n{}", problems.len(), problems.join("\n"));
}

#[test]
fn a_history_that_cannot_be_read_is_a_gap_at_its_call() {
    let home = Home::new("hostile-history");
    let service = Service::start();
    let trust = home.write("trust", TRUST).display().to_string();
    let url = |path: &str| service.url.replace("/orders", path);
    let json = home.run(&["record", "--json", "--trust", &trust, &url("/unreadable-child")]).json();
    let calls = &json["trace"]["entry"]["scope"]["calls"];
    let why = calls[0]["unreadable"].as_str().unwrap_or_default();
    assert!(why.contains(r#"a call's name is not UTF-8: "\xff\xfe""#) && why.contains("event 1"), "{calls}");
    assert_eq!((&calls[0]["gap"], &calls[0]["scope"]), (&Value::Bool(true), &Value::Null));
    // the rest of the trace stays
    assert_eq!((calls.as_array().map(Vec::len), &calls[1]["name"]), (Some(2), &Value::from("GET /logo.png")));
    assert_eq!(json["trace"]["entry"]["scope"]["service"], "web");
    home.run(&["record", "--trust", &trust, &url("/unreadable-child")])
        .says("gap: unreadable history")
        .says("the history of stock for Get of web cannot be read: a call's name is not UTF-8");
    home.run(&["show", json["run"].as_str().unwrap()]).says("the history of stock for Get of web cannot be read");
    // more events than the tool reads
    let json = home.run(&["record", "--json", "--trust", &trust, &url("/endless-child")]).json();
    let calls = &json["trace"]["entry"]["scope"]["calls"];
    assert!(calls[0]["unreadable"].as_str().is_some_and(|why| why.contains("100,000 events")), "{calls}");
    assert_eq!(calls.as_array().map(Vec::len), Some(2));
    // the history of the service itself
    home.run(&["record", "--trust", &trust, &url("/unreadable")])
        .exits(5)
        .says("verdict unknown: the reply's history cannot be read: a call's name is not UTF-8");
    home.run(&["sweep", "--trust", &trust, &url("/unreadable")])
        .exits(5)
        .says("answered with a history that cannot be read")
        .says("a call's name is not UTF-8");
}
