//! Four languages as callers and callees of each other, over HTTP, gRPC and gRPC streams: complete histories, and every
//! fault as the caller's library reports the real failure. Each journey is A → B → A, so that histories nest. With
//! `lab/relay`.

use crate::support::Completed;
use crate::support::relays::{KINDS, LANGUAGES, Relays};
use serde_json::Value;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The failure that a caller must report: `grpc *` is any gRPC status but OK, `cut` a visit without a result.
const HTTP_FAULTS: [(&str, &str); 9] = [
    ("unavailable", "refused"),
    ("status 503", "status 503"),
    ("deadline", "timeout"),
    ("reset", "reset"),
    ("delay 20ms", ""),
    ("hang 100ms", "timeout"),
    ("lost-reply", "reset"),
    ("empty-reply", "garbled"),
    ("corrupt-reply", "garbled"),
];
const GRPC_FAULTS: [(&str, &str); 9] = [
    ("unavailable", "grpc 14"),
    ("status 13", "grpc 13"),
    ("deadline", "grpc 4"),
    ("reset", "grpc 14"),
    ("delay 20ms", ""),
    ("hang 100ms", "grpc 4"),
    ("lost-reply", "grpc 14"),
    ("empty-reply", "cut"),
    ("corrupt-reply", "grpc *"),
];

/// Caller → callee → caller.
fn record(relays: &Relays, caller: usize, kind: &str, callee: usize, fault: Option<&str>) -> Completed {
    let path = Relays::path(&[relays.stop(kind, callee), relays.stop(kind, caller)]);
    let url = format!("http://127.0.0.1:{}{path}", relays.port(caller));
    let fault = fault.map(|f| format!("{}->{}#1 {f}", LANGUAGES[caller], LANGUAGES[callee]));
    let mut arguments = vec!["record", "--json", &url];
    if let Some(fault) = &fault {
        arguments.extend(["--fault", fault]);
    }
    relays.home.run(&arguments)
}

/// Problems of one journey without a fault.
fn healthy(json: &Value, caller: &str, kind: &str, callee: &str) -> Result<(), String> {
    let twice = matches!(kind, "watch" | "collect" | "talk");
    let names = match twice {
        false => vec![caller, callee, caller],
        // a stream makes the journey twice at each side
        true => [vec![caller], [vec![callee], vec![caller; 2]].concat().repeat(2)].concat(),
    };
    let page: Value =
        serde_json::from_str(json["body"].as_str().unwrap_or_default()).map_err(|e| format!("body: {e}"))?;
    let seen: Vec<&str> = page["names"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if seen != names || page["failure"] != "" {
        return Err(format!("visited {seen:?}, failure {}", page["failure"]));
    }
    let summary = &json["summary"];
    let calls = if twice { 3 } else { 2 };
    if summary["gaps"] != 0
        || summary["calls"] != calls
        || summary["services"].as_array().map(Vec::len) != Some(if caller == callee { 1 } else { 2 })
    {
        return Err(format!("summary {summary}"));
    }
    Ok(())
}

fn check_outcome(json: &Value, caller: &str, fault: &str, expected: &str) -> Result<(), String> {
    let page: Value =
        serde_json::from_str(json["body"].as_str().unwrap_or_default()).map_err(|e| format!("body: {e}"))?;
    let failure = page["failure"].as_str().unwrap_or_default();
    let ok = match expected {
        // some decoders accept corrupt text
        "grpc *" => (failure.starts_with("grpc ") && failure != "grpc 0") || page.to_string().contains('\u{FFFD}'),
        "cut" => failure.is_empty() && page["names"] == serde_json::json!([caller]),
        exact => failure == exact,
    };
    if !ok {
        return Err(format!("reported {page}, expected {expected}"));
    }
    let call = &json["trace"]["entry"]["scope"]["calls"][0];
    if call["fault"] != 0 {
        return Err("the fault is not in the history".into());
    }
    // the callee ran and returned its history exactly if the fault sends the call
    let runs = ["delay", "lost-reply", "empty-reply", "corrupt-reply"].iter().any(|f| fault.starts_with(f));
    let ran = !call["scope"].is_null();
    if ran != runs || call["gap"] == true {
        return Err(format!("the callee's history is {}there, gap {}", if ran { "" } else { "not " }, call["gap"]));
    }
    Ok(())
}

/// Healthy, every fault, healthy again.
fn journeys(relays: &Relays, caller: usize, kind: &str, callee: usize) -> Vec<String> {
    let (from, to) = (LANGUAGES[caller], LANGUAGES[callee]);
    let mut problems = Vec::new();
    let mut check = |what: &str, result: Result<(), String>| {
        if let Err(e) = result {
            problems.push(format!("{from} {kind} {to}: {what}: {e}"));
        }
    };
    let json = |ran: &Completed| -> Result<Value, String> {
        serde_json::from_str(&ran.out).map_err(|e| format!("{e}: {} {}", ran.out, ran.err))
    };
    let run = |fault| json(&record(relays, caller, kind, callee, fault));
    check("before", run(None).and_then(|v| healthy(&v, from, kind, to)));
    for (fault, expected) in if kind == "http" { HTTP_FAULTS } else { GRPC_FAULTS } {
        check(fault, run(Some(fault)).and_then(|v| check_outcome(&v, from, fault, expected)));
    }
    check("after", run(None).and_then(|v| healthy(&v, from, kind, to)));
    problems
}

/// The time for a connection in each of two requests, in which the caller calls the callee over HTTP.
fn connect_times(relays: &Relays, caller: usize, callee: usize) -> [Option<u64>; 2] {
    let url = format!("http://127.0.0.1:{}{}", relays.port(caller), Relays::path(&[relays.stop("http", callee)]));
    [(), ()].map(|()| {
        let recorded = relays.home.run(&["record", "--json", &url]).exits(0).json();
        let call = &recorded["trace"]["entry"]["scope"]["calls"][0];
        assert_eq!((&call["outcome"], &call["gap"]), (&"replied".into(), &false.into()), "{recorded}");
        call["connect_us"].as_u64()
    })
}

#[test]
fn the_first_call_on_a_connection_shows_the_time_for_it() {
    let Some(relays) = Relays::up("matrix-connections", &[]) else { return };
    for (caller, language) in LANGUAGES.iter().enumerate() {
        let callee = (caller + 1) % LANGUAGES.len();
        let [first, second] = connect_times(&relays, caller, callee);
        match *language {
            // the JDK's client does not expose it
            "java" => assert_eq!((first, second), (None, None)),
            // `requests.get` connects for each call
            "python" => assert!(first > Some(0) && second > Some(0), "{first:?}, {second:?}"),
            _ => assert!(first > Some(0) && second.is_none(), "{language}: {first:?}, {second:?}"),
        }
    }
    let python = format!("http://127.0.0.1:{}{}", relays.port(2), Relays::path(&[relays.stop("http", 0)]));
    relays.home.run(&["record", &python]).exits(0).says("(connect ");
}

#[test]
fn every_language_calls_every_other() {
    let Some(relays) = Relays::up("matrix", &[]) else { return };
    let pairs: Vec<(usize, &str, usize)> =
        KINDS.iter().flat_map(|kind| (0..16).map(move |i| (i / 4, *kind, i % 4))).collect();
    let (next, problems) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|threads| {
        for _ in 0..3 {
            threads.spawn(|| {
                while let Some((caller, kind, callee)) = pairs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = journeys(&relays, *caller, kind, *callee);
                    problems.lock().unwrap().extend(found);
                }
            });
        }
    });
    let problems = problems.into_inner().unwrap();
    assert!(problems.is_empty(), "{} problems\n{}", problems.len(), problems.join("\n"));
}
