//! Scopes that answer with a stream: the pieces sent with messages and with the trailer.

use crate::book::*;
use crate::steps::*;
use model::{Fault, FaultKind};
use serde_json::{Value, json};
use wire::envelope::{Accept, Hop};
use wire::trust::Purpose;

const WATCH: &str = "/shop.Catalogue/Watch";

fn message(at_us: u64, bytes: usize) -> Value {
    json!({"at_us": at_us, "message": {"bytes": bytes}})
}

fn call(at_us: u64, number: u64, name: &str) -> [Value; 2] {
    [send(at_us, "grpc", CURRENCY, name), ended(at_us + 5, "reply", number, 0, None, true)]
}

fn stream(plan: Option<Vec<Fault>>, steps: Vec<Value>) -> Value {
    let mut input = scope_input(TRUST, plan, steps);
    input["stream"] = json!(true);
    input
}

/// The same for a caller with other capabilities.
fn stream_for(accept: Accept, receive_limit: u64, steps: Vec<Value>) -> Value {
    let mut input = stream(None, steps);
    let hop = Hop { accept, receive_limit, ..hop(None) };
    input["envelope"] = json!(wire::bytes::hex(&seal_with(&signed(None), Purpose::Trace, &hop)));
    input
}

/// A stream and the number of its messages, trailer included, that must carry a piece.
fn good(book: &Book, name: &str, about: &str, pieces: usize, input: Value) -> Value {
    let result = wire::conform::result("scope", &input).unwrap_or_else(|e| panic!("{name}: {e}"));
    let steps = result["steps"].as_array().expect("a list");
    let carried = steps.iter().filter(|step| step["piece"].is_string()).count();
    assert_eq!(carried, pieces, "{name}: {result}");
    book.good(&format!("stream-{name}"), "scope", about, input);
    result
}

fn cut(result: &Value) -> bool {
    // the second byte holds the flags
    result["steps"]
        .as_array()
        .and_then(|s| s.last())
        .is_some_and(|s| s["piece"].as_str().is_some_and(|p| &p[2..4] == "03"))
}

pub fn write(book: &Book) {
    let id = |n| wire::call_id::derive(ROOT, n);
    good(
        book,
        "no-message",
        "everything is in the trailer, the route included",
        1,
        stream(None, [&call(10, 1, GET)[..], &[respond(30, 0, WATCH)]].concat()),
    );
    good(
        book,
        "one-message",
        "the first message carries the head, without any event",
        2,
        stream(None, vec![message(10, 100), respond(30, 0, WATCH)]),
    );
    good(
        book,
        "nothing-new",
        "a message without new events carries no piece",
        3,
        stream(
            None,
            [
                &[message(5, 1), message(6, 1)][..],
                &call(10, 1, GET),
                &[message(20, 0), message(21, 0), message(22, 0), respond(30, 0, "")],
            ]
            .concat(),
        ),
    );
    good(
        book,
        "failed",
        "the trailer has the rest whatever the status",
        2,
        stream(None, [&[message(5, 1)][..], &call(10, 1, GET), &[respond(30, 14, "")]].concat()),
    );
    let many = (0..12u64).flat_map(|n| {
        [&call(n * 100, n + 1, if n % 2 == 0 { GET } else { CONVERT })[..], &[message(n * 100 + 50, 200)]].concat()
    });
    good(
        book,
        "many-messages",
        "each carries the events since the one before; names are written once",
        13,
        stream(None, many.chain([respond(2000, 0, "")]).collect()),
    );
    good(book, "children", "pieces end between events, child histories stay whole", 3, {
        let first = child(id(1), "catalogue", "", &[("127.0.0.1:9", "/store.Store/Read", 0)]);
        let second = child(id(2), "currency", GET, &[]);
        stream(
            None,
            vec![
                send(10, "grpc", CATALOGUE, "/shop.Catalogue/ListProducts"),
                message(12, 30),
                send(13, "grpc", CURRENCY, GET),
                ended(20, "reply", 1, 0, Some(&first), false),
                message(21, 30),
                ended(25, "failed", 2, 1, Some(&second), false),
                respond(30, 0, ""),
            ],
        )
    });
    let crash = Fault::new(FaultKind::Unavailable, select("currency", "")).after(select("", "GetCurrencies"), 1);
    good(
        book,
        "faults",
        "a plan works in a stream",
        2,
        stream(
            Some(vec![crash]),
            [
                &call(10, 1, GET)[..],
                &[
                    message(20, 5),
                    send(30, "grpc", CURRENCY, CONVERT),
                    ended(31, "failed", 2, 14, None, false),
                    respond(40, 14, ""),
                ],
            ]
            .concat(),
        ),
    );
    limits(book);
    trailers(book);
}

fn limits(book: &Book) {
    let with =
        |first: usize| [&call(10, 1, GET)[..], &[message(20, first), message(30, 10), respond(40, 0, "")]].concat();
    let field = Accept { field: true, tail: false };
    good(
        book,
        "large-message",
        "too large for the caller's limit: new events wait for the next message",
        2,
        stream(None, with(4 << 20)),
    );
    let empty = wire::conform::result("scope", &stream(None, with(0))).expect("documented shape");
    let piece = empty["steps"][2]["piece"].as_str().expect("the first message takes a piece along").len() / 2;
    let exact = 1000 - wire::carrier::field_bytes(piece);
    let carries = |input: &Value| {
        wire::conform::result("scope", input).expect("documented shape")["steps"][2]["piece"].is_string()
    };
    let (fits, over) = (stream_for(field, 1000, with(exact)), stream_for(field, 1000, with(exact + 1)));
    assert!(carries(&fits) && !carries(&over));
    good(book, "limit", "message and field together are exactly the limit", 2, fits);
    good(book, "over-limit", "one byte more", 2, over);
    good(
        book,
        "no-message-fits",
        "every message exceeds the limit: everything is in the trailer",
        1,
        stream_for(field, 20, with(10)),
    );
    good(book, "unknown-limit", "without a known limit nothing is appended", 1, stream_for(field, 0, with(10)));
    good(
        book,
        "not-accepted",
        "a caller that does not accept a field",
        1,
        stream_for(Accept { field: false, tail: true }, 4 << 20, with(10)),
    );
}

fn trailers(book: &Book) {
    let id = |n| wire::call_id::derive(ROOT, n);
    let name = |n: u64| format!("/shop.Catalogue/{}{n}", "Watch".repeat(10));
    // the last piece is 2 bytes and an offset, the first one also has the head
    let calls = |count: u64| (0..count).flat_map(|n| call(n * 1000, n + 1, &name(n))).collect::<Vec<_>>();
    let end = |at| vec![respond(at, 0, "")];
    let result = good(
        book,
        "trailer-events",
        "too many events for the trailer: the first ones and the last",
        1,
        stream(None, [calls(46), end(99_000)].concat()),
    );
    assert!(cut(&result));
    let result = good(
        book,
        "trailer-events-later",
        "the same after a first piece",
        2,
        stream(None, [vec![message(0, 1)], calls(46), end(99_000)].concat()),
    );
    assert!(cut(&result));
    let result = good(book, "trailer-children", "child histories are removed first and become gaps", 2, {
        let sends: Vec<(String, String)> =
            (0..40).map(|n| (format!("peer-{n}"), format!("/shop.Cart/{}{n}", "Get".repeat(20)))).collect();
        let sends: Vec<(&str, &str, i64)> = sends.iter().map(|(peer, name)| (&peer[..], &name[..], 0)).collect();
        let large = child(id(1), "cart", "", &sends);
        assert!(large.len() > 3072);
        let small = child(id(2), "cart", "", &[]);
        stream(
            None,
            vec![
                send(10, "grpc", "127.0.0.1:7003", "/shop.Cart/GetCart"),
                send(11, "grpc", "127.0.0.1:7003", "/shop.Cart/GetCart"),
                message(12, 5),
                ended(20, "reply", 1, 0, Some(&large), false),
                ended(30, "failed", 2, 14, Some(&small), false),
                respond(40, 0, ""),
            ],
        )
    });
    assert!(cut(&result));
    let result = good(book, "trailer-both", "without children it is still too large", 1, {
        let below = |n| child(id(n), "cart", "", &[("store", "/store.Store/Read", 0)]);
        let steps = (0..46).flat_map(|n| {
            [
                send(n * 100, "grpc", CURRENCY, &name(n)),
                ended(n * 100 + 9, "reply", n + 1, 0, Some(&below(n + 1)), false),
            ]
        });
        stream(None, steps.chain(end(9000)).collect())
    });
    assert!(cut(&result));
    // the longest name that fits, and one byte more
    let sized = |extra: usize| {
        let last = format!("/{}", "x".repeat(extra));
        stream(None, [calls(37), vec![send(50_000, "grpc", CURRENCY, &last), respond(50_001, 0, WATCH)]].concat())
    };
    let whole = |extra: &usize| !cut(&wire::conform::result("scope", &sized(*extra)).expect("documented shape"));
    let extra = (1..199).rev().find(whole).expect("a short name fits");
    let result = good(book, "trailer-limit", "a last piece of exactly 3072 bytes", 1, sized(extra));
    let last = result["steps"][75]["piece"].as_str().expect("checked by good");
    assert_eq!(last.len() / 2, 3072, "{extra}");
    let result = good(book, "trailer-over-limit", "one byte more", 1, sized(extra + 1));
    assert!(cut(&result));
}
