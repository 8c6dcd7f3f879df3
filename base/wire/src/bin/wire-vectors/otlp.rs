//! Histories as OTLP.

use crate::book::*;
use crate::steps::*;
use model::trace::Protocol;
use model::{Fault, FaultKind};
use serde_json::{Value, json};
use wire::accept::Receiver;
use wire::bytes::{hex, put_str, put_varint};
use wire::call_id::derive;
use wire::scope::{CallEnd, Scope};
use wire::truncate::truncate;
use wire::trust::Purpose;

const START_US: u64 = 1_800_000_000_123_456;

fn input(has_parent: bool, history: &[u8]) -> Value {
    json!({"trace": hex(&TRACE), "has_parent": has_parent, "history": hex(history)})
}

fn scope(service: &str, plan: Option<Vec<Fault>>, faults_on: bool) -> Scope {
    let purpose = if plan.is_some() { Purpose::Fault } else { Purpose::Trace };
    let envelope = Receiver::new(trust()).accept(&seal(&signed(plan), purpose), NOW, 0).expect("our own envelope");
    Scope::new(service, &envelope, START_US, faults_on)
}

fn answered<'a>(call: u64, status: u64, history: Option<&'a [u8]>, gap: bool) -> CallEnd<'a> {
    CallEnd { call, status, history, gap }
}

pub fn write(book: &Book) {
    let nested = nested();
    for (name, about, has_parent, history) in [
        (
            "nested",
            "three services, one of them twice: spans in the order of the walk, a resource per service",
            false,
            &nested,
        ),
        ("with-parent", "the request came with a traceparent", true, &nested),
        ("gap", "callees without a history, and one that failed", false, &gaps()),
        ("faulted", "faults that fired, with and without a reply", false, &faulted()),
        (
            "truncated",
            "truncated to a header: no children, few events",
            false,
            &truncate(&nested, 150).expect("our own").expect("fits"),
        ),
        ("http-errors", "the server span has its status; a client span is an error from 400 on", false, &http()),
        ("open", "calls without a recorded end last until the end of the segment", false, &open()),
        ("faults-off", "faults are switched off", false, &off()),
        ("broken-off", "a history without an end", true, &broken_off()),
        ("nameless", "a call name from the caller, from the service, from the callee", false, &nameless()),
        ("huge-times", "a time beyond 2^64-1 nanoseconds is capped", false, &huge_times()),
    ] {
        book.good(&format!("otlp-{name}"), "otlp", about, input(has_parent, history));
    }
    for (name, about, history) in [
        ("cut", "ends inside an event", nested[..nested.len() - 1].to_vec()),
        ("version", "an unsupported version", [&[3], &nested[1..]].concat()),
        ("empty", "no bytes", Vec::new()),
    ] {
        book.write("bad", &format!("otlp-{name}"), "otlp", about, input(false, &history));
    }
}

fn nested() -> Vec<u8> {
    let mut root = scope("frontend", None, true);
    let currency = child(derive(derive(ROOT, 2), 1), "currency", "", &[]);
    let checkout = {
        let mut envelope =
            Receiver::new(trust()).accept(&seal(&signed(None), Purpose::Trace), NOW, 0).expect("our own envelope");
        envelope.hop.call = derive(ROOT, 2);
        let mut scope = Scope::new("checkout", &envelope, START_US + 600, true);
        let sent = scope.begin_call(Protocol::Grpc, "currency", CONVERT, 10);
        scope.record_reply(answered(sent.number, 0, Some(&currency), false), 40);
        scope.finish(200, 90);
        scope.history("POST /checkout/{id}")
    };
    let first = child(derive(ROOT, 1), "currency", GET, &[]);
    root.begin_call(Protocol::Grpc, "currency", GET, 10);
    root.record_reply(answered(1, 0, Some(&first), false), 400);
    root.begin_call(Protocol::Http, "checkout", "POST /checkout/17", 500);
    root.record_reply(answered(2, 200, Some(&checkout), false), 900);
    root.finish(200, 1000);
    root.history("GET /")
}

fn gaps() -> Vec<u8> {
    let mut root = scope("frontend", None, true);
    root.begin_call(Protocol::Http, "images.internal:80", "GET /img/17/small.png", 10);
    root.record_reply(answered(1, 304, None, true), 20);
    root.begin_call(Protocol::Grpc, "cart", "/shop.Cart/GetCart", 30);
    root.record_failure(answered(2, 14, None, true), 40);
    root.begin_call(Protocol::Http, "cart", "GET /cart", 50);
    root.record_failure(answered(3, 4, None, true), 60);
    root.begin_call(Protocol::Grpc, "cart", "/shop.Cart/GetCart", 70);
    root.record_reply(answered(4, 5, None, true), 80);
    root.finish(500, 90);
    root.history("GET /")
}

fn faulted() -> Vec<u8> {
    let plan = vec![
        Fault::new(FaultKind::Status, select("currency", "")).arg(13).nth(1),
        Fault::new(FaultKind::Unavailable, select("currency", "")).nth(2),
        Fault::new(FaultKind::EmptyReply, select("cart", "")),
    ];
    let mut root = scope("frontend", Some(plan), true);
    root.begin_call(Protocol::Grpc, "currency", GET, 10);
    root.record_reply(answered(1, 13, None, false), 11);
    root.begin_call(Protocol::Grpc, "currency", GET, 20);
    root.record_failure(answered(2, 14, None, false), 21);
    root.begin_call(Protocol::Http, "cart", "GET /cart", 30);
    let below = child(derive(ROOT, 3), "cart", "", &[]);
    root.record_reply(answered(3, 200, Some(&below), false), 50);
    root.finish(0, 60);
    root.history("")
}

fn http() -> Vec<u8> {
    let mut root = scope("frontend", None, true);
    for (n, status) in [200u64, 399, 400, 404, 500].into_iter().enumerate() {
        let at = n as u64 * 20;
        root.begin_call(Protocol::Http, "stock", "GET /stock/7", at);
        let mut envelope =
            Receiver::new(trust()).accept(&seal(&signed(None), Purpose::Trace), NOW, 0).expect("our own envelope");
        envelope.hop.call = derive(ROOT, n as u64 + 1);
        let mut below = Scope::new("stock", &envelope, START_US + at, true);
        below.finish(status, 4);
        root.record_reply(answered(n as u64 + 1, status, Some(&below.history("")), false), at + 9);
    }
    root.finish(404, 200);
    root.history("GET /stock")
}

fn open() -> Vec<u8> {
    let mut root = scope("frontend", None, true);
    root.begin_call(Protocol::Grpc, "currency", GET, 10);
    root.begin_call(Protocol::Http, "cart", "GET /cart", 20);
    root.finish(200, 300);
    root.history("GET /")
}

fn off() -> Vec<u8> {
    let mut root = scope("frontend", Some(vec![Fault::new(FaultKind::Unavailable, select("currency", ""))]), false);
    root.begin_call(Protocol::Grpc, "currency", GET, 10);
    root.record_reply(answered(1, 0, None, true), 20);
    root.finish(200, 30);
    root.history("GET /")
}

fn broken_off() -> Vec<u8> {
    let mut root = scope("frontend", None, true);
    root.begin_call(Protocol::Grpc, "currency", GET, 10);
    root.record_reply(answered(1, 0, None, true), 70);
    root.begin_call(Protocol::Grpc, "currency", CONVERT, 80);
    let mut history = root.history("");
    history[9] |= 1;
    history
}

fn nameless() -> Vec<u8> {
    let mut root = scope("frontend", None, true);
    let below = child(derive(ROOT, 1), "currency", "", &[]);
    root.begin_call(Protocol::Grpc, "currency", GET, 10);
    root.record_reply(answered(1, 0, Some(&below), false), 20);
    root.finish(0, 30);
    root.history("")
}

fn huge_times() -> Vec<u8> {
    let mut history = vec![1];
    history.extend_from_slice(&ROOT.to_be_bytes());
    history.push(0);
    put_str(&mut history, "frontend");
    put_str(&mut history, "GET /");
    put_varint(&mut history, u64::MAX - 5);
    // SEND_RESPONSE 100 µs later, which overflows 64 bits
    history.extend_from_slice(&[4, 100]);
    put_varint(&mut history, 200);
    history
}
