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
        ("no-version", "in another version the bit has another meaning", [&[3], &flagged(&deep, 4)[1..]].concat()),
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
    bad("history-version", "an unsupported version", &[&[3], &deep[1..]].concat());
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
    bad("history-kind", "event kind 5, which version 1 does not have", &frame(&[5, 0, 0]));
    bad("history-reserved-flag", "a flag of an event that version 1 does not have", &frame(&[0x21, 0, 0, 1, b'x', 1]));
    bad(
        "history-no-service",
        "a segment without a service name",
        &[&[1][..], &id.to_be_bytes(), &[0, 0, 0, 0]].concat(),
    );
    bad("history-fault-index", "a plan has at most 64 faults", &frame(&[1 | 8, 0, 0, 1, b'x', 1, 64]));
    left_out(book, id);
    counted(book);
}

/// A segment of service `a` with these events.
fn segment(events: &[u8]) -> Vec<u8> {
    [&[0, 1, b'a', 0, 0], events].concat()
}

/// A call to `x` that ends with this segment.
fn call_with(number: u8, segment: &[u8]) -> Vec<u8> {
    let mut events = vec![1, 0, 0, 1, b'x', 1, 2 | 8, 0, number, 0];
    wire::bytes::put_varint(&mut events, segment.len() as u64);
    [&events, segment].concat()
}

/// Nested segments that cannot be read: each is left out, its call has a gap, and the rest stays.
fn left_out(book: &Book, id: u64) {
    let between = |unreadable: &[u8]| {
        let leaf = segment(&[4, 0, 0]);
        let sibling = segment(&call_with(1, &leaf));
        let mut events = call_with(1, &sibling);
        events.extend(call_with(2, unreadable));
        events.extend(call_with(3, &leaf));
        events.extend([4, 9, 0]);
        [&[1][..], &id.to_be_bytes(), &segment(&events)].concat()
    };
    for (name, about, unreadable) in [
        ("name", "a call's name is not UTF-8", segment(&[1, 0, 0, 2, 0xff, 0xfe, 1])),
        ("peer", "a callee's name is not UTF-8", segment(&[1, 0, 0, 1, b'x', 0, 1, 0xc3])),
        ("service", "the service is not UTF-8", vec![0, 1, 0xff, 0, 0]),
        ("cut", "it ends inside an event", segment(&[1, 0, 0, 1])),
        ("empty", "it has no bytes", Vec::new()),
        ("kind", "an event of kind 5, after others", segment(&[1, 0, 0, 1, b'x', 1, 5, 0, 0])),
        ("not-open", "the end of a call that was not sent", segment(&[2, 0, 1, 0])),
        ("child-length", "a nested history is longer than the rest", segment(&[1, 0, 0, 1, b'x', 1, 10, 0, 1, 0, 99])),
        ("fault", "a fault beyond the plan", segment(&[1 | 8, 0, 0, 1, b'x', 1, 64])),
    ] {
        let input = json!({"bytes": hex(&between(&unreadable))});
        book.good(&format!("history-left-out-{name}"), "history", about, input);
    }
    let inner = segment(&call_with(1, &segment(&[1, 0, 0, 1, 0xff, 1])));
    book.good(
        "history-left-out-inner",
        "history",
        "only the innermost segment that cannot be read is left out",
        json!({"bytes": hex(&between(&inner))}),
    );
    let input = json!({"trace": hex(&TRACE), "has_parent": false, "history": hex(&between(&inner))});
    book.good("otlp-left-out", "otlp", "a segment that is left out is a gap in spans, too", input);
    let mut deeper = segment(&[]);
    for _ in 0..70 {
        deeper = segment(&call_with(1, &deeper));
    }
    let history = [&[1][..], &id.to_be_bytes(), &deeper].concat();
    let input = json!({"trace": hex(&TRACE), "has_parent": false, "history": hex(&history)});
    book.good("otlp-too-deep", "otlp", "of seventy levels the first 64 are read", input);
}

/// How much of a reply's history a scope with a conditional plan reads.
fn counted(book: &Book) {
    let (head, first) = (segment(&[]), [1, 0, 0, 1, b'x', 1]);
    let (send, unreadable) = ([1u8, 0, 1, 1], [1u8, 0, 0, 1, 0xff, 1]);
    let part = |bytes: &[u8], times: usize| json!([hex(bytes), times]);
    // a call that ends with a segment of `sends` sends and an event that cannot be read
    let nested = |sends: usize, last: &[u8]| {
        let size = head.len() + first.len() + send.len() * (sends - 1) + last.len();
        let mut before = vec![1, 0, 0, 1, b'x', 1, 2 | 8, 0, 1, 0];
        wire::bytes::put_varint(&mut before, size as u64);
        [part(&before, 1), part(&head, 1), part(&first, 1), part(&send, sends - 1), part(last, 1)]
    };
    let flat = |sends: usize| vec![part(&head, 1), part(&first, 1), part(&send, sends - 1)];
    let within = |sends: usize, last: &[u8], after: usize| {
        let mut parts = vec![part(&head, 1)];
        parts.extend(nested(sends, last));
        parts.push(part(&send, after));
        parts
    };
    for (name, about, parts, expected) in [
        ("most", "10,000 events", flat(10_000), "counted"),
        ("too-large", "10,001 events", flat(10_001), "too_large"),
        ("nested", "10,000 events, most of them nested", within(9_000, &[], 998), "counted"),
        ("nested-too-large", "10,001 events, most of them nested", within(9_000, &[], 999), "too_large"),
        ("too-large-inside", "10,000 nested events, and two outside", within(10_000, &[], 0), "too_large"),
        (
            "left-out",
            "events of a segment that is left out were read: they count",
            within(8_999, &unreadable, 998),
            "counted",
        ),
        ("left-out-too-large", "one more", within(8_999, &unreadable, 999), "too_large"),
        ("unreadable", "an event that cannot be read", vec![part(&head, 1), part(&unreadable, 1)], "unreadable"),
        (
            "unreadable-first",
            "a segment's own events are read before those nested in it",
            [within(10_001, &[], 0), vec![part(&unreadable, 1)]].concat(),
            "unreadable",
        ),
        (
            "unreadable-last",
            "an event that cannot be read, after 9,999",
            [flat(9_999), vec![part(&unreadable, 1)]].concat(),
            "unreadable",
        ),
        (
            "unreadable-beyond",
            "an event that cannot be read, after 10,000: it is not reached",
            [flat(10_000), vec![part(&unreadable, 1)]].concat(),
            "too_large",
        ),
    ] {
        let input = json!({"parts": parts});
        let got = wire::conform::result("counted", &input).expect("documented shape");
        assert_eq!(got["result"], expected, "{name}");
        book.good(&format!("counted-{name}"), "counted", about, input);
    }
}
