//! Carriers of histories on replies.

use crate::book::*;
use crate::steps::child;
use serde_json::json;
use wire::bytes::hex;

/// Ends of bodies that look like a tail and are none: the body stays whole.
fn wrong_tails(book: &Book, history: &[u8]) {
    let ending = |content: &[u8], length: usize| {
        [b"<html></html>", content, &(length as u32).to_be_bytes(), &wire::carrier::MAGIC].concat()
    };
    let changed = |at: usize, byte: u8| {
        let mut bytes = history.to_vec();
        bytes[at] = byte;
        ending(&bytes, bytes.len())
    };
    let n = history.len();
    for (name, about, bytes) in [
        ("into-body", "a length that reaches into the body", ending(history, n + 5)),
        ("too-short", "a length that leaves a part of the history", ending(history, n - 1)),
        ("zero", "a length of 0: a tail has a history", ending(&[], 0)),
        ("text", "text before the length", ending(b"the end of a text", 17)),
        ("version", "a history of another version", changed(0, 3)),
        ("flags", "a flag that only gRPC uses", changed(9, 4)),
        ("service-control", "a control character in the service's name", changed(11, 0x1f)),
        ("service-delete", "the character 0x7f in the service's name", changed(11, 0x7f)),
        ("service-utf8", "a service whose name is not UTF-8", changed(11, 0xff)),
        ("service-empty", "a service without a name", changed(10, 0)),
        ("head-only", "a version and a call id, without a segment", ending(&history[..9], 9)),
    ] {
        book.good(&format!("cut-tail-{name}"), "cut_tail", about, json!({"bytes": hex(&bytes)}));
    }
    let head = [&[1][..], &ROOT.to_be_bytes(), &[0, 1, b'a', 0, 0]].concat();
    book.good("cut-tail-no-events", "cut_tail", "a head suffices", json!({"bytes": hex(&ending(&head, head.len()))}));
    let unreadable = [&head[..], &[0xff]].concat();
    let bytes = ending(&unreadable, unreadable.len());
    book.good(
        "cut-tail-events",
        "cut_tail",
        "events are not read: they may be unreadable",
        json!({"bytes": hex(&bytes)}),
    );
}

/// Which value of a repeated header counts.
fn repeated_headers(book: &Book) {
    for (name, about, lines) in [
        ("none", "no line", vec![]),
        ("one", "one line", vec!["AQID"]),
        ("two", "of two lines the last", vec!["AQID", "BAUG"]),
        ("joined", "two lines that a server has joined", vec!["AQID, BAUG"]),
        ("joined-blanks", "blanks and tabs around a member are not part of it", vec!["AQID,\t BAUG \t"]),
        ("one-blanks", "nor around a single value", vec![" AQID\t"]),
        ("last-empty", "an empty last member is the value", vec!["AQID,"]),
        ("last-line-empty", "an empty last line is the value", vec!["AQID", ""]),
        ("last-joined", "the last member of the last line", vec!["AQID", "BAUG,BwgJ"]),
        ("other-spaces", "only blanks and tabs are removed", vec!["AQID,\u{a0}BAUG\u{a0}"]),
    ] {
        book.good(&format!("last-value-{name}"), "last_value", about, json!({"lines": lines}));
    }
}

pub fn write(book: &Book) {
    let history = child(ROOT, "currency", "", &[]);
    for (name, message) in [("field", "0a03616263"), ("field-empty-message", "")] {
        book.good(
            name,
            "field",
            "appended to a serialized message",
            json!({"message": message, "history": hex(&history)}),
        );
    }
    book.good("tail", "tail", "after a body", json!({"message": hex(b"<html></html>"), "history": hex(&history)}));
    let with_field = wire::carrier::append_field(b"\x0a\x03abc", &history);
    let with_tail = wire::carrier::append_tail(b"<html></html>", &history);
    book.good("cut-field", "cut_field", "the field is removed before parsing", json!({"bytes": hex(&with_field)}));
    book.good("cut-tail", "cut_tail", "the tail is removed", json!({"bytes": hex(&with_tail)}));
    book.good(
        "cut-field-none",
        "cut_field",
        "a message without a field stays as it is",
        json!({"bytes": "0a03616263"}),
    );
    book.good(
        "cut-field-lookalike",
        "cut_field",
        "magic at the end, but no field of ours before it",
        json!({"bytes": hex(b"\x0a\x10abcdefgh\0\0\0\x10flm\x01")}),
    );
    book.good(
        "cut-field-length-lies",
        "cut_field",
        "a length beyond the message",
        json!({"bytes": hex(&[&with_field[..with_field.len() - 8], &[0xff; 4], b"flm\x01"].concat())}),
    );
    book.good(
        "cut-tail-length-lies",
        "cut_tail",
        "a length beyond the body",
        json!({"bytes": hex(b"short\0\0\xff\xffflm\x01")}),
    );
    wrong_tails(book, &history);
    repeated_headers(book);
    for (name, about, edit, expected) in [
        ("small", "at most 768 bytes go into the header", json!({"history_bytes": 768}), "header"),
        ("large", "more than 768 bytes go into the tail", json!({"history_bytes": 769}), "tail"),
        ("not-accepted", "the caller accepts no tail", json!({"accept": []}), "truncated_header"),
        ("not-found", "status 404 may have a tail", json!({"status": 404}), "tail"),
        ("server-error", "status 500 may have a tail", json!({"status": 500}), "tail"),
        ("created", "status 201 may not have a tail", json!({"status": 201}), "truncated_header"),
        ("redirect", "status 302 may not have a tail", json!({"status": 302}), "truncated_header"),
        ("not-modified", "status 304 may not have a tail", json!({"status": 304}), "truncated_header"),
        ("head", "a reply to HEAD may not have a tail", json!({"method": "HEAD"}), "truncated_header"),
        (
            "encoded",
            "an encoded body may not have a tail",
            json!({"headers": {"content-encoding": "gzip"}}),
            "truncated_header",
        ),
        (
            "identity",
            "the encoding identity may have a tail",
            json!({"headers": {"content-encoding": "identity"}}),
            "tail",
        ),
        (
            "framed",
            "the frames of an RPC may not have a tail",
            json!({"headers": {"content-type": "application/grpc-web+proto"}}),
            "truncated_header",
        ),
        (
            "digest",
            "a reply with a digest may not have a tail",
            json!({"headers": {"repr-digest": "sha-256=:x:"}}),
            "truncated_header",
        ),
        (
            "range",
            "a reply to a range request may not have a tail",
            json!({"request_headers": {"range": "bytes=0-3"}}),
            "truncated_header",
        ),
        ("incomplete", "the handler did not complete", json!({"complete": false}), "truncated_header"),
    ] {
        let mut input = json!({"method": "GET", "request_headers": {}, "status": 200, "headers": {"content-type": "text/html"}, "complete": true, "accept": ["tail"], "history_bytes": 5000});
        for (key, value) in edit.as_object().expect("an object") {
            input[key] = value.clone();
        }
        let got = wire::conform::result("carrier", &input).expect("documented shape");
        assert_eq!(got["carrier"], expected, "{name}");
        book.good(&format!("carrier-{name}"), "carrier", about, input);
    }
}
