//! Version 2 of the history: the time that a call spent on a connection of its own.

use crate::book::*;
use crate::steps::*;
use crate::unscoped::{history, input, scope, stream};
use serde_json::{Value, json};
use wire::bytes::hex;
use wire::call_id::derive;
use wire::history::{HEAD_BYTES, VERSION, VERSION_2};

const CART: &str = "127.0.0.1:7003";
const PRODUCT: &str = "GET /products/17";

fn connected(at_us: u64, call: u64, us: u64) -> Value {
    json!({"at_us": at_us, "connected": {"call": call, "us": us}})
}

/// A call that connects and gets a history, one that uses the same connection, and one that cannot connect.
fn steps(child: Option<&[u8]>) -> Vec<Value> {
    vec![
        send(10, "http", CATALOGUE, PRODUCT),
        connected(310, 1, 299),
        ended(400, "reply", 1, 200, child, child.is_none()),
        send(410, "http", CATALOGUE, PRODUCT),
        ended(450, "reply", 2, 200, None, true),
        send(460, "http", CART, "GET /cart"),
        connected(960, 3, 500),
        ended(960, "failed", 3, 4, None, true),
        respond(970, 200, "GET /"),
    ]
}

pub fn write(book: &Book) {
    let about = "a call that set up a connection, one that used it, and one that ended before its connection was ready";
    scope(book, "scope-connected", about, VERSION_2, input(steps(None)));
    let below = child(derive(ROOT, 1), "catalogue", "", &[]);
    let with_child = input(steps(Some(&below)));
    scope(book, "scope-connected-child", "the time is before the callee's segment", VERSION_2, with_child.clone());
    let about = "of several times of a call the last one counts; none counts once the call has ended";
    let several = input(vec![
        send(10, "http", CATALOGUE, PRODUCT),
        connected(20, 1, 5),
        connected(30, 1, 5_000_000_000),
        ended(40, "reply", 1, 200, None, true),
        connected(50, 1, 7),
        respond(60, 200, ""),
    ]);
    scope(book, "scope-connected-several", about, VERSION_2, several);
    let none = input(vec![
        send(10, "http", CATALOGUE, PRODUCT),
        connected(20, 1, 0),
        ended(40, "reply", 1, 200, None, true),
        respond(60, 200, ""),
    ]);
    scope(book, "scope-connected-none", "a time of 0 is none: version 1", VERSION, none);
    let late = stream(vec![
        send(5, "grpc", CURRENCY, GET),
        json!({"at_us": 6, "message": {"bytes": 10}}),
        connected(7, 1, 2),
        ended(10, "reply", 1, 0, None, true),
        respond(30, 0, ""),
    ]);
    scope(book, "stream-connected-late", "the head was sent with version 1", VERSION_2, late);
    histories(book, &history(&with_child));
}

fn histories(book: &Book, bytes: &[u8]) {
    let put = |group: &str, name: &str, about: &str, bytes: &[u8]| {
        book.write(group, name, "history", about, json!({"bytes": hex(bytes)}));
    };
    put("good", "history-connected", "replies and failures with the time for a connection", bytes);
    let call = [1, 0, 0, 1, b'x', 1];
    let frame =
        |version: u8, end: &[u8]| [&[version][..], &ROOT.to_be_bytes(), &[0, 1, b'a', 0, 0], &call, end].concat();
    let about = "a time of 0 is none";
    put("good", "history-connected-zero", about, &frame(2, &[0x22, 0, 1, 0, 0, 4, 0, 0]));
    for (name, about, version, end) in [
        ("version-1", "version 1 has no times for connections", 1, &[0x22, 0, 1, 0, 9, 4, 0, 0][..]),
        ("cut", "ends before the time", 2, &[0x23, 0, 1, 14]),
        ("flag", "an undefined flag", 2, &[0x62, 0, 1, 0, 9, 4, 0, 0]),
    ] {
        put("bad", &format!("history-connected-{name}"), about, &frame(version, end));
    }
    let about = "times remain without child histories";
    book.good("truncate-connected", "truncate", about, json!({"history": hex(bytes), "limit": bytes.len() - 1}));
    let about = "of the events, the first ones remain, with the time";
    book.good("truncate-connected-events", "truncate", about, json!({"history": hex(bytes), "limit": HEAD_BYTES + 75}));
    let otlp = json!({"trace": hex(&TRACE), "has_parent": false, "history": hex(bytes)});
    book.good("otlp-connected", "otlp", "the time that a call spent on its connection", otlp);
    let parts = json!([[hex(&[0, 1, b'a', 0, 0]), 1], [hex(&call), 1], [hex(&[0x22, 0, 1, 0, 9]), 1]]);
    for version in [1, 2] {
        let about = "the time for a connection can be read in version 2 only";
        let name = format!("counted-connected-version-{version}");
        book.good(&name, "counted", about, json!({"parts": parts, "version": version}));
    }
}
