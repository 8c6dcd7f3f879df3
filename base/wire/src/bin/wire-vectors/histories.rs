//! Histories: decoded, truncated, and refused.

use crate::book::*;
use crate::steps::*;
use model::trace::Protocol;
use serde_json::json;
use wire::accept::Receiver;
use wire::bytes::hex;
use wire::scope::{CallEnd, Scope};
use wire::trust::Purpose;

/// The history with these flags of its root segment.
fn flagged(history: &[u8], flags: u8) -> Vec<u8> {
    let mut bytes = history.to_vec();
    bytes[wire::history::HEAD_BYTES] = flags;
    bytes
}

pub fn write(book: &Book) {
    let id = wire::call_id::derive(ROOT, 1);
    let deep = child(
        ROOT,
        "checkout",
        "POST /checkout",
        &[("currency", CONVERT, 0), ("currency", CONVERT, -14), ("cart", "/shop.Cart/GetCart", 0)],
    );
    book.good("history-flat", "history", "a string table of two names and two peers", json!({"bytes": hex(&deep)}));
    let nested = {
        let mut envelope =
            Receiver::new(trust()).accept(&seal(&signed(None), Purpose::Trace), NOW, 0).expect("our own envelope");
        envelope.hop.call = ROOT;
        let mut scope = Scope::new("frontend", &envelope, 1_800_000_000_000_000, true);
        for n in 1..=6u64 {
            scope.begin_call(Protocol::Grpc, "checkout", "/shop.Checkout/Place", n * 100);
            let below = child(
                wire::call_id::derive(ROOT, n),
                "checkout",
                "",
                &[("currency", CONVERT, 0), ("cart", "/shop.Cart/GetCart", 0)],
            );
            scope.record_reply(CallEnd { call: n, status: 0, history: Some(&below), gap: false }, n * 100 + 50);
        }
        scope.finish(200, 900);
        scope.history("GET /")
    };
    book.good("history-nested", "history", "six calls with children", json!({"bytes": hex(&nested)}));
    for (name, about, bytes) in [
        ("yes", "the flag is set", flagged(&deep, 4)),
        ("yes-truncated", "with other flags", flagged(&deep, 7)),
        ("no", "the flag is not set", deep.clone()),
        ("no-version", "in another version the bit has another meaning", [&[2], &flagged(&deep, 4)[1..]].concat()),
        ("no-flags", "ends before the flags", deep[..9].to_vec()),
        ("no-bytes", "no history", Vec::new()),
    ] {
        book.good(&format!("takes-field-{name}"), "takes_field", about, json!({"history": hex(&bytes)}));
    }
    book.good(
        "history-takes-field",
        "history",
        "the flag for the caller is set",
        json!({"bytes": hex(&flagged(&deep, 4))}),
    );
    for (name, about, limit) in [
        ("truncate-not-needed", "it fits: unchanged", nested.len()),
        ("truncate-children", "it fits without child histories", 150),
        ("truncate-events", "it fits without child histories and with the first events only", 90),
        ("truncate-impossible", "not even the head and the last event fit", 20),
    ] {
        book.good(name, "truncate", about, json!({"history": hex(&nested), "limit": limit}));
    }
    let bad =
        |name: &str, about: &str, bytes: &[u8]| book.write("bad", name, "history", about, json!({"bytes": hex(bytes)}));
    bad("history-cut", "ends inside an event", &deep[..deep.len() - 1]);
    bad("history-version", "an unsupported version", &[&[2], &deep[1..]].concat());
    bad("history-empty", "no bytes", &[]);
    bad("history-reserved-segment-flag", "an undefined flag of a segment", &flagged(&deep, 8));
    let frame = |events: &[u8]| [&[1][..], &id.to_be_bytes(), &[0, 1, b'a', 0, 0], events].concat();
    bad("history-answer-before-call", "a reply to a call that was never sent", &frame(&[2, 0, 1, 0]));
    bad("history-answered-twice", "two replies to one call", &frame(&[1, 0, 0, 1, b'x', 1, 2, 0, 1, 0, 2, 0, 1, 0]));
    bad("history-after-the-end", "an event after SEND_RESPONSE", &frame(&[4, 0, 0, 4, 0, 0]));
    bad("history-reference", "an index beyond the string table", &frame(&[1, 0, 2, 1]));
    bad(
        "history-child-length",
        "the length of a child history exceeds the rest by one byte",
        &frame(&[1, 0, 0, 1, b'x', 1, 2 | 8, 0, 1, 0, 6, 0, 1, b'a', 0, 0]),
    );
    bad("history-kind", "event kind 5", &frame(&[5, 0, 0]));
    bad("history-reserved-flag", "an undefined flag of an event", &frame(&[0x21, 0, 0, 1, b'x', 1]));
    bad(
        "history-no-service",
        "a segment without a service name",
        &[&[1][..], &id.to_be_bytes(), &[0, 0, 0, 0]].concat(),
    );
    let mut deeper = vec![0u8, 1, b'a', 0, 0];
    for _ in 0..70 {
        let mut outer = vec![0u8, 1, b'a', 0, 0, 1, 0, 0, 1, b'x', 1, 2 | 8, 0, 1, 0];
        wire::bytes::put_varint(&mut outer, deeper.len() as u64);
        outer.extend_from_slice(&deeper);
        deeper = outer;
    }
    bad("history-too-deep", "seventy levels", &[&[1][..], &id.to_be_bytes(), &deeper].concat());
}
