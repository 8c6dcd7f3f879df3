//! Joining the pieces of a stream, and pieces that do not belong together.

use crate::book::*;
use crate::steps::*;
use serde_json::{Value, json};
use wire::bytes::{hex, put_varint};

fn piece(flags: u8, offset: usize, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![0x81, flags];
    put_varint(&mut out, offset as u64);
    out.extend_from_slice(bytes);
    out
}

fn input(call: u64, pieces: &[Vec<u8>]) -> Value {
    json!({"call": format!("{call:016x}"), "pieces": pieces.iter().map(|p| hex(p)).collect::<Vec<_>>()})
}

pub fn write(book: &Book) {
    let whole = child(ROOT, "currency", GET, &[("store", "/store.Store/Read", 0), ("cart", "/shop.Cart/GetCart", -14)]);
    let head = whole.len() - child_events(&whole);
    let (a, b) = (head, head + 29);
    let three = [piece(0, 0, &whole[..a]), piece(0, a, &whole[a..b]), piece(1, b, &whole[b..])];
    let put = |group: &str, name: &str, about: &str, pieces: &[Vec<u8>], history: bool, complete: bool| {
        let input = input(ROOT, pieces);
        let got = wire::conform::result("join", &input).expect("documented shape");
        assert_eq!((got["history"].is_string(), got["complete"] == json!(true)), (history, complete), "{name}: {got}");
        book.write(group, &format!("join-{name}"), "join", about, input);
    };
    put("good", "one", "a stream without messages", &[piece(1, 0, &whole)], true, true);
    put("good", "three", "head, events, the rest", &three, true, true);
    put(
        "good",
        "empty-piece",
        "a piece may be empty",
        &[piece(0, 0, &whole), piece(0, whole.len(), &[]), piece(1, whole.len(), &[])],
        true,
        true,
    );
    put(
        "good",
        "truncated",
        "a truncated piece makes a truncated segment",
        &[three[0].clone(), three[1].clone(), piece(3, b, &whole[b..])],
        true,
        false,
    );
    put(
        "good",
        "truncated-first",
        "the first piece was truncated",
        &[piece(2, 0, &whole[..a]), three[1].clone(), three[2].clone()],
        true,
        false,
    );
    put("good", "no-last", "the stream broke off: the received pieces are a history", &three[..2], true, false);
    put("good", "head-only", "a head alone is a history", &three[..1], true, false);
    put("bad", "none", "no pieces, no history", &[], false, false);
    put(
        "bad",
        "wrong-offset",
        "a piece is missing: the pieces after it are dropped",
        &[three[0].clone(), three[2].clone()],
        true,
        false,
    );
    put("bad", "wrong-offset-first", "the first piece is missing", &three[1..], false, false);
    put(
        "bad",
        "after-gap",
        "after a dropped piece, further pieces are dropped, even one with a valid offset",
        &[three[0].clone(), piece(0, 3, b"x"), three[1].clone(), three[2].clone()],
        true,
        false,
    );
    put(
        "bad",
        "twice",
        "the same piece again",
        &[three[0].clone(), three[0].clone(), three[1].clone(), three[2].clone()],
        true,
        false,
    );
    put(
        "bad",
        "after-last",
        "a piece after the last one is dropped",
        &[three.to_vec(), vec![piece(0, whole.len(), b"more")]].concat(),
        true,
        true,
    );
    put(
        "bad",
        "garbage",
        "bytes of another program",
        &[three[0].clone(), b"\x0a\x03abc".to_vec(), three[1].clone()],
        true,
        false,
    );
    put("bad", "empty", "a piece of zero bytes", &[three[0].clone(), Vec::new(), three[1].clone()], true, false);
    put("bad", "whole-history", "a history is not a piece", std::slice::from_ref(&whole), false, false);
    put("bad", "reserved-flag", "an undefined flag", &[three[0].clone(), piece(8, a, &whole[a..])], true, false);
    put("bad", "cut-offset", "ends inside its offset", &[three[0].clone(), vec![0x81, 1, 0x80]], true, false);
    put(
        "bad",
        "long-offset",
        "an offset of eleven bytes",
        &[three[0].clone(), [&[0x81, 1][..], &[0x80; 10], &[0]].concat()],
        true,
        false,
    );
    put("bad", "half-head", "ends inside the head", &[piece(1, 0, &whole[..a - 1])], false, false);
    put("bad", "half-call-id", "ends inside the call id", &[piece(1, 0, &whole[..5])], false, false);
    put("bad", "wrong-call", "answers another call", &[piece(1, 0, &child(7, "currency", GET, &[]))], false, false);
    put("bad", "version", "an unsupported version", &[piece(1, 0, &[&[3], &whole[1..]].concat())], false, false);
    put(
        "bad",
        "half-event",
        "a piece that ends inside an event is joined; decoding fails",
        &[piece(1, 0, &whole[..a + 3])],
        true,
        true,
    );
    oversize(book, &whole);
}

/// The number of bytes of a history that are events.
fn child_events(history: &[u8]) -> usize {
    let none = child(ROOT, "currency", GET, &[]);
    // without calls the only event is SEND_RESPONSE: tag, two bytes of time, status
    history.len() - (none.len() - 4)
}

/// Four megabytes of pieces are too large for a vector, so an offset beyond any history tests the limit.
fn oversize(book: &Book, whole: &[u8]) {
    let pieces = [piece(0, 0, whole), piece(1, (4 << 20) + 1, b"x")];
    book.write("bad", "join-offset-beyond-limit", "join", "an offset beyond four megabytes", input(ROOT, &pieces));
}
