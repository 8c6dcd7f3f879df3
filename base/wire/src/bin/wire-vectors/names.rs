//! Call ids, names, selectors, corrupted bodies.

use crate::book::*;
use serde_json::json;

pub fn write(book: &Book) {
    book.good(
        "call-id",
        "call_id",
        "derived ids",
        json!({"parent": format!("{ROOT:016x}"), "numbers": [1, 2, 3, 5000]}),
    );
    book.good(
        "call-id-wraps",
        "call_id",
        "arithmetic modulo 2^64",
        json!({"parent": "ffffffffffffffff", "numbers": [1, 4294967296u64]}),
    );
    for (name, bytes) in [("corrupt", "00010203040506"), ("corrupt-one", "07"), ("corrupt-empty", "")] {
        book.good(name, "corrupt", "the second half becomes 0xFF", json!({"bytes": bytes}));
    }
    let pair = |s: [&str; 3], caller: &str, peer: &str, name: &str| json!({"selector": {"caller": s[0], "callee": s[1], "call": s[2]}, "caller": caller, "peer": peer, "name": name});
    book.good("match", "match", "callers, callees and calls", json!({"pairs": [
        pair(["", "", ""], "a", "b:1", "/x.Y/Z"), pair(["a", "", ""], "a", "b", "/x.Y/Z"), pair(["b", "", ""], "a", "b", "/x.Y/Z"),
        pair(["", "b", ""], "a", "b", "/x.Y/Z"), pair(["", "b", ""], "a", "b:7000", "/x.Y/Z"), pair(["", "b", ""], "a", "b.prod.svc.cluster.local:7000", "/x.Y/Z"),
        pair(["", "10", ""], "a", "10.0.0.1:7000", "/x.Y/Z"), pair(["", "10.0.0.1", ""], "a", "10.0.0.1:7000", "/x.Y/Z"), pair(["", "10.0.0.1:7000", ""], "a", "10.0.0.1:7000", "/x.Y/Z"),
        pair(["", "::1", ""], "a", "[::1]:7000", "/x.Y/Z"), pair(["", "bc", ""], "a", "b", "/x.Y/Z"), pair(["", "", "Z"], "a", "b", "/x.Y/Z"), pair(["", "", "/x.Y/Z"], "a", "b", "/x.Y/Z"),
        pair(["", "", "Y/Z"], "a", "b", "/x.Y/Z"), pair(["", "", "z"], "a", "b", "/x.Y/Z"), pair(["", "", "/x.Y/*"], "a", "b", "/x.Y/Z"),
        pair(["", "", "GET /a/{id}"], "a", "b", "GET /a/17"), pair(["", "", "GET /a/{id}"], "a", "b", "GET /a/17/x"), pair(["", "", "GET /a/*/x"], "a", "b", "GET /a/17/x"),
        pair(["", "", "POST /a/{id}"], "a", "b", "GET /a/17"), pair(["", "", "GET /"], "a", "b", "GET /"), pair(["", "", "a"], "a", "b", "GET /a"),
    ]}));
    let request = |method: &str, target: &str| json!({"method": method, "target": target});
    book.good("name", "name", "raw URLs become route templates", json!({"requests": [
        request("GET", "/"), request("GET", ""), request("GET", "/cart/123?x=1"), request("POST", "/a/550e8400-e29b-41d4-a716-446655440000/b"),
        request("GET", "/c/deadbeef"), request("GET", "/c/deadbee1"), request("GET", "/c/beef1"), request("GET", "/product/mug-01"),
        request("GET", "/t/abcdefghijklmnopqrst"), request("GET", "/t/abcdefghijklmnopqrs1"), request("GET", "/v1/items#frag"), request("GET", &format!("/{}", "ä".repeat(150))),
    ]}));
}
