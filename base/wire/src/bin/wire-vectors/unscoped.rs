//! Version 2 of the history: calls that were inherited, and calls that belonged to no request.

use crate::book::*;
use crate::steps::*;
use serde_json::{Value, json};
use wire::bytes::hex;
use wire::call_id::derive;
use wire::history::{HEAD_BYTES, VERSION, VERSION_2};

const READ: &str = "/store.Store/Read";

fn unscoped(at_us: u64, calls: &[Value], more: u64) -> Value {
    json!({"at_us": at_us, "unscoped": {"calls": calls, "more": more}})
}

fn call(protocol: &str, authority: &str, name: &str, site: &str) -> Value {
    json!({"protocol": protocol, "authority": authority, "name": name, "site": site})
}

fn inherited(at_us: u64, protocol: &str, authority: &str, name: &str) -> Value {
    let mut step = send(at_us, protocol, authority, name);
    step["send"]["inherited"] = json!(true);
    step
}

pub(crate) fn input(steps: Vec<Value>) -> Value {
    scope_input(TRUST, None, steps)
}

pub(crate) fn stream(steps: Vec<Value>) -> Value {
    let mut input = input(steps);
    input["stream"] = json!(true);
    input
}

/// The history that results from these steps.
pub(crate) fn history(input: &Value) -> Vec<u8> {
    let result = wire::conform::result("scope", input).expect("documented shape");
    result["history"].as_str().and_then(wire::bytes::unhex).expect("a history")
}

/// A scope whose history has this version.
pub(crate) fn scope(book: &Book, name: &str, about: &str, version: u8, input: Value) {
    assert_eq!(history(&input)[0], version, "{name}");
    book.good(name, "scope", about, input);
}

/// The segment of a callee in version 2.
fn child_2(call: u64) -> Vec<u8> {
    let mut steps = vec![inherited(10, "grpc", CURRENCY, CONVERT), ended(20, "reply", 1, 0, None, true)];
    steps.extend([unscoped(25, &[self::call("grpc", CATALOGUE, READ, "")], 0), respond(30, 0, "")]);
    let mut bytes = history(&input(steps));
    bytes[1..HEAD_BYTES].copy_from_slice(&call.to_be_bytes());
    bytes
}

pub fn write(book: &Book) {
    scopes(book);
    streams(book);
    histories(book);
}

fn scopes(book: &Book) {
    let answer = |number| ended(20 + number, "reply", number, 0, None, true);
    scope(
        book,
        "scope-inherited",
        "a call whose context had no scope is marked; its name and its peer are recorded as for any call",
        VERSION_2,
        input(vec![
            send(10, "grpc", CURRENCY, GET),
            inherited(11, "http", CATALOGUE, "GET /products/1234?page=2"),
            answer(1),
            answer(2),
            respond(30, 200, "GET /"),
        ]),
    );
    let products = || call("http", CATALOGUE, "GET /products/17?page=2", "catalogue.go:31");
    scope(
        book,
        "scope-unscoped",
        "equal calls are counted together, in the order of the first of each; names are normalized before",
        VERSION_2,
        input(vec![
            send(10, "grpc", CURRENCY, GET),
            answer(1),
            unscoped(
                25,
                &[
                    call("grpc", CURRENCY, GET, ""),
                    products(),
                    call("http", CATALOGUE, "GET /products/18", "catalogue.go:31"),
                    call("http", CATALOGUE, "GET /products/18", "catalogue.go:32"),
                    call("grpc", CATALOGUE, "GET /products/18", "catalogue.go:31"),
                    call("grpc", "127.0.0.1:9", "", ""),
                    call("grpc", "", "", &"ö".repeat(150)),
                    products(),
                ],
                0,
            ),
            respond(30, 200, ""),
        ]),
    );
    let different: Vec<Value> = (1..=18).map(|n| call("grpc", "127.0.0.1:9", &format!("/a.B/M{n}"), "")).collect();
    let first = &different[0];
    scope(
        book,
        "scope-unscoped-many",
        "sixteen different calls are listed, further ones are counted together",
        VERSION_2,
        input(vec![unscoped(5, &[&different[..], std::slice::from_ref(first)].concat(), 3), respond(30, 200, "")]),
    );
    scope(
        book,
        "scope-unscoped-more",
        "calls of which only the number is known",
        VERSION_2,
        input(vec![unscoped(5, &[], 1), respond(30, 200, "")]),
    );
    let none = input(vec![unscoped(5, &[], 0), respond(30, 200, "")]);
    scope(book, "scope-unscoped-none", "no such calls: version 1", VERSION, none);
    let with_child = |history: &[u8]| {
        let reply = ended(20, "reply", 1, 0, Some(history), false);
        input(vec![send(10, "grpc", CURRENCY, GET), reply, respond(30, 200, "")])
    };
    let child = child_2(derive(ROOT, 1));
    let about = "the history of a callee has version 2, and so has that of its caller";
    scope(book, "scope-version-2-below", about, VERSION_2, with_child(&child));
    let other = child_2(derive(ROOT, 2));
    let about = "the history of another call is not embedded, so its version does not count";
    scope(book, "scope-version-2-not-embedded", about, VERSION, with_child(&other));
    let unknown = [&[3], &child[1..]].concat();
    let about = "a history of an unknown version is a gap";
    scope(book, "scope-version-3-below", about, VERSION, with_child(&unknown));
}

fn streams(book: &Book) {
    let message = |at_us: u64| json!({"at_us": at_us, "message": {"bytes": 10}});
    let late = stream(vec![
        message(5),
        inherited(10, "grpc", CURRENCY, GET),
        message(12),
        ended(20, "reply", 1, 0, None, true),
        unscoped(25, &[call("grpc", CATALOGUE, READ, "main.go:7")], 0),
        respond(30, 0, ""),
    ]);
    let about = "the head was sent with version 1: the pieces after the inherited call have a flag";
    scope(book, "stream-version-2-late", about, VERSION_2, late);
    let early = stream(vec![inherited(10, "grpc", CURRENCY, GET), message(12), respond(30, 0, "")]);
    scope(book, "stream-version-2", "the head has version 2, and the pieces have the flag", VERSION_2, early);
}

fn histories(book: &Book) {
    let bytes = child_2(ROOT);
    let put = |group: &str, name: &str, about: &str, bytes: &[u8]| {
        book.write(group, name, "history", about, json!({"bytes": hex(bytes)}));
    };
    put("good", "history-version-2", "an inherited call and a call without a scope", &bytes);
    let nested = history(&input(vec![
        send(10, "grpc", CURRENCY, GET),
        ended(20, "reply", 1, 0, Some(&child_2(derive(ROOT, 1))), false),
        respond(30, 200, ""),
    ]));
    put("good", "history-version-2-nested", "the version counts for nested segments too", &nested);
    let about = "nested events of version 2 in version 1 are left out";
    put("good", "history-version-2-left-out", about, &[&[1], &nested[1..]].concat());
    let plain = child(ROOT, "currency", "", &[]);
    put("good", "history-version-2-plain", "nothing of version 2 is needed", &[&[2], &plain[1..]].concat());
    let frame = |events: &[u8]| [&[2][..], &ROOT.to_be_bytes(), &[0, 1, b'a', 0, 0], events].concat();
    for (name, about, events) in [
        ("kind", "event kind 6", vec![6, 0, 0]),
        ("response-flag", "an undefined flag of kind 4", vec![0x24, 0, 0]),
        ("unscoped-flag", "an undefined flag of kind 5", vec![0x0d, 0, 0, 1, b'x', 1, 1, 0]),
        ("unscoped-inherited", "an undefined flag of kind 5", vec![0x25, 0, 0, 1, b'x', 1, 1, 0]),
        ("unscoped-cut", "ends before the place of the call", vec![5, 0, 0, 1, b'x', 1, 1]),
        (
            "unscoped-site",
            "the place of a call has 201 bytes",
            [&[5, 0, 0, 1, b'x', 1, 1, 0xc9, 1][..], &[b'a'; 201]].concat(),
        ),
        ("unscoped-after-the-end", "an event after SEND_RESPONSE", vec![4, 0, 0, 5, 0, 0, 1, b'x', 1, 1, 0]),
    ] {
        put("bad", &format!("history-version-2-{name}"), about, &frame(&events));
    }
    for (name, about, limit) in [
        ("truncate-version-2", "events of version 2 remain without child histories", nested.len() - 1),
        ("truncate-version-2-events", "of the own events, the first ones remain", 45),
    ] {
        book.good(
            name,
            "truncate",
            about,
            json!({"history": hex(if limit > 45 { &nested } else { &bytes }), "limit": limit}),
        );
    }
    let otlp = json!({"trace": hex(&TRACE), "has_parent": false, "history": hex(&nested)});
    book.good("otlp-version-2", "otlp", "an inherited call, and the number of calls without a scope", otlp);
    let ending = [b"<html></html>", &bytes[..], &(bytes.len() as u32).to_be_bytes(), &wire::carrier::MAGIC].concat();
    book.good("cut-tail-version-2", "cut_tail", "a history of version 2", json!({"bytes": hex(&ending)}));
    let mut flagged = bytes.clone();
    flagged[HEAD_BYTES] = 4;
    book.good("takes-field-yes-version-2", "takes_field", "the flag is set", json!({"history": hex(&flagged)}));
    let parts = json!([[hex(&[0, 1, b'a', 0, 0]), 1], [hex(&[0x21, 0, 0, 1, b'x', 1]), 1]]);
    for (name, version) in [("counted-version-1", 1), ("counted-version-2", 2)] {
        let about = "an inherited call counts in version 2 and cannot be read in version 1";
        book.good(name, "counted", about, json!({"parts": parts, "version": version}));
    }
}
