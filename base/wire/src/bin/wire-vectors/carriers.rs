//! Carriers of histories on replies.

use crate::book::*;
use crate::steps::child;
use serde_json::json;
use wire::bytes::hex;

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
