//! Writes `spec/vectors` from the reference implementation: `wire-vectors DIR`. The diff is reviewed like code.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use model::fault::AfterCounts;
use model::trace::Protocol;
use model::{Fault, FaultKind, Selector};
use serde_json::{Value, json};
use std::path::PathBuf;
use wire::accept::Receiver;
use wire::bytes::hex;
use wire::envelope::{Accept, Hop, Signed, counters};
use wire::scope::{End, Scope};
use wire::trust::{Purpose, Trust};

const NOW: u64 = 1_800_000_000;
const TRUST: &str = "environment demo\n\
# secrets of test vectors\n\
key trace t1 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n\
key fault f1 202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f\n\
faults on\n";
const TRACE: [u8; 16] = *b"trace-0123456789";
const ROOT: u64 = 0x0102_0304_0506_0708;

struct Book {
    dir: PathBuf,
}

impl Book {
    fn write(&self, group: &str, name: &str, kind: &str, about: &str, input: Value) {
        let expect = wire::conform::result(kind, &input).unwrap_or_else(|e| panic!("{group}/{name}: {e}"));
        let vector = json!({"about": about, "kind": kind, "input": input, "expect": expect});
        let text = serde_json::to_string_pretty(&vector).expect("plain JSON") + "\n";
        std::fs::write(self.dir.join(group).join(format!("{name}.json")), text).expect("the vector folder is writable");
    }

    fn good(&self, name: &str, kind: &str, about: &str, input: Value) {
        self.write("good", name, kind, about, input);
    }

    /// One envelope, gRPC, first attempt.
    fn envelope(&self, group: &str, name: &str, about: &str, bytes: &[u8]) {
        self.write(group, name, "envelope", about, attempts(&[bytes]));
    }
}

fn attempts(list: &[&[u8]]) -> Value {
    let attempts: Vec<Value> = list.iter().map(|b| json!({"carrier": "grpc", "value": hex(b), "attempt": 0})).collect();
    json!({"trust": TRUST, "now": NOW, "attempts": attempts})
}

fn trust() -> Trust {
    Trust::parse(TRUST).expect("the vectors' trust settings parse")
}

fn signed(plan: Option<Vec<Fault>>) -> Signed {
    Signed {
        trace_id: TRACE,
        run: *b"run-0123456789ab",
        expires: NOW + 60,
        key_id: String::new(),
        environment: "demo".into(),
        history: true,
        plan,
    }
}

fn hop(plan: Option<&[Fault]>) -> Hop {
    Hop {
        call: ROOT,
        accept: Accept { field: true, tail: true },
        receive_limit: 4 << 20,
        evidence: vec![0; plan.map_or(0, counters)],
    }
}

fn seal(signed: &Signed, purpose: Purpose) -> Vec<u8> {
    let trust = trust();
    let mut bytes = signed.sign(trust.key_for(purpose).expect("both keys exist")).expect("small enough");
    hop(signed.plan.as_deref()).put(&mut bytes);
    bytes
}

fn select(callee: &str, call: &str) -> Selector {
    Selector { caller: String::new(), callee: callee.into(), call: call.into() }
}

fn envelopes(book: &Book) {
    let plain = seal(&signed(None), Purpose::Trace);
    book.envelope("good", "envelope-history", "permission for a history, signed by a trace key", &plain);
    book.envelope(
        "good",
        "envelope-history-by-fault-key",
        "a fault key also permits a history",
        &seal(&signed(None), Purpose::Fault),
    );
    let mut every: Vec<Fault> =
        FaultKind::ALL.into_iter().map(|k| Fault::new(k, select("currency", "Convert"))).collect();
    every[1].arg = 13;
    every[4].arg = 250;
    every[5].nth = 3;
    every[6].max_fires = 2;
    every[7] = every[7].clone().after(select("", "GetCurrencies"), 1).after(select("cart", ""), 300);
    every[7].after_counts = AfterCounts::Sent;
    every[8].selector.caller = "frontend".into();
    let all = seal(&signed(Some(every.clone())), Purpose::Fault);
    book.envelope("good", "envelope-every-kind", "one fault of each kind, every option used once", &all);
    let many: Vec<Fault> = (1..=64)
        .map(|n| {
            Fault::new(
                FaultKind::Unavailable,
                Selector { caller: "frontend".into(), ..select("currency", "/shop.Currency/Convert") },
            )
            .nth(n)
        })
        .collect();
    let big = seal(&signed(Some(many.clone())), Purpose::Fault);
    assert!(big.len() <= 2048, "a plan of 64 faults must fit, this has {} bytes", big.len());
    book.envelope("good", "envelope-64-faults", "a plan of 64 faults fits", &big);
    book.good("envelope-http", "envelope", "the same envelope in an HTTP header",
        json!({"trust": TRUST, "now": NOW, "attempts": [{"carrier": "http", "value": URL_SAFE_NO_PAD.encode(&all), "attempt": 0}]}));
    book.good("envelope-transparent-retry", "envelope", "the same call id with another attempt number is a retry, not a replay",
        json!({"trust": TRUST, "now": NOW, "attempts": [{"carrier": "grpc", "value": hex(&all), "attempt": 0}, {"carrier": "grpc", "value": hex(&all), "attempt": 1}]}));
    book.good(
        "envelope-history-twice",
        "envelope",
        "only plans are guarded against replay",
        attempts(&[&plain, &plain]),
    );
    book.good("envelope-last-second", "envelope", "expiry one second ahead, and exactly ten minutes ahead", {
        let mut near = signed(None);
        near.expires = NOW + 1;
        let mut far = signed(None);
        far.expires = NOW + 600;
        attempts(&[&seal(&near, Purpose::Trace), &seal(&far, Purpose::Trace)])
    });
    bad_envelopes(book, &plain, &all, many);
}

fn bad_envelopes(book: &Book, plain: &[u8], all: &[u8], many: Vec<Fault>) {
    let bad = |name: &str, about: &str, bytes: &[u8]| book.envelope("bad", name, about, bytes);
    book.write("bad", "replayed", "envelope", "a plan counts once per call", attempts(&[all, all]));
    bad("oversized", "2049 bytes", &[plain, &vec![0; 2049 - plain.len()]].concat());
    book.write(
        "bad",
        "oversized-header",
        "envelope",
        "a header of 2732 characters",
        json!({"trust": TRUST, "now": NOW, "attempts": [{"carrier": "http", "value": "A".repeat(2732), "attempt": 0}]}),
    );
    book.write(
        "bad",
        "header-not-base64",
        "envelope",
        "padding, blanks and other alphabets are malformed",
        json!({"trust": TRUST, "now": NOW, "attempts": [
            {"carrier": "http", "value": "AQ==", "attempt": 0}, {"carrier": "http", "value": "A Q", "attempt": 0},
            {"carrier": "http", "value": "+/+/", "attempt": 0}, {"carrier": "http", "value": "", "attempt": 0}]}),
    );
    bad("empty", "no bytes at all", &[]);
    bad("foreign", "somebody else's bytes under our name", b"\x0a\x10some other tool\x12\x04abcd");
    bad("truncated", "the last byte of the hop part is missing", &plain[..plain.len() - 1]);
    bad("truncated-signature", "ends inside the signature", &plain[..plain.len() - 18]);
    bad("trailing", "a byte too many behind the hop part", &[plain, &[0]].concat());
    bad(
        "length-lies",
        "the signed part claims to be longer than the envelope",
        &[&[1, 0xff, 0x0f], &plain[2..]].concat(),
    );
    let mut version = plain.to_vec();
    version[0] = 2;
    bad("version", "a version of tomorrow", &version);
    let at = |needle: &[u8]| plain.windows(needle.len()).position(|w| w == needle).expect("it is in there");
    let mut unsigned = plain.to_vec();
    let signature = 2 + usize::from(plain[1]);
    unsigned[signature..signature + 16].fill(0);
    bad("unsigned", "sixteen zero bytes for a signature", &unsigned);
    let mut flipped = plain.to_vec();
    flipped[at(&TRACE)] ^= 1;
    bad("bad-signature", "one bit of the trace id was changed", &flipped);
    let mut key = plain.to_vec();
    key[at(b"t1") + 1] = b'9';
    bad("unknown-key", "a key id of another environment", &key);
    let mut other = signed(None);
    other.environment = "production".into();
    bad("wrong-environment", "rightly signed, for another environment", &seal(&other, Purpose::Trace));
    let mut late = signed(None);
    late.expires = NOW;
    bad("expired", "its last second has begun", &seal(&late, Purpose::Trace));
    let mut far = signed(None);
    far.expires = NOW + 601;
    bad("expiry-too-far", "ten minutes and a second ahead", &seal(&far, Purpose::Trace));
    bad(
        "plan-with-trace-key",
        "a trace key cannot sign a plan",
        &seal(&signed(Some(many[..1].to_vec())), Purpose::Trace),
    );
    raw_plans(book);
    bad("reserved-permission", "a permission bit nobody knows", &raw(&[0x04], &[], &[0; 10]));
    bad("reserved-accept", "an accept bit nobody knows", &raw(&[1], &[], &[0, 0, 0, 0, 0, 0, 0, 1, 4, 0]));
    bad(
        "evidence-missing",
        "a plan with counters, a hop part without",
        &raw(&[3], &[0, 1, 1, 2, 0, 0, 0, 1], &[0, 0, 0, 0, 0, 0, 0, 1, 0, 0]),
    );
    bad("not-utf8", "an environment that is not UTF-8", &{
        let mut part = vec![1];
        part.extend_from_slice(&TRACE);
        part.extend_from_slice(&[0; 16]);
        part.extend_from_slice(&((NOW + 60) as u32).to_be_bytes());
        part.extend_from_slice(b"\x02t1\x02\xff\xfe");
        close(part, &[0; 10], Purpose::Trace)
    });
}

/// A signed envelope around hand-made plan and hop bytes.
fn raw(permissions: &[u8], plan: &[u8], hop: &[u8]) -> Vec<u8> {
    let mut part = permissions.to_vec();
    part.extend_from_slice(&TRACE);
    part.extend_from_slice(&[0; 16]);
    part.extend_from_slice(&((NOW + 60) as u32).to_be_bytes());
    part.extend_from_slice(b"\x02f1\x04demo");
    part.extend_from_slice(plan);
    close(part, hop, Purpose::Fault)
}

fn close(part: Vec<u8>, hop: &[u8], purpose: Purpose) -> Vec<u8> {
    let signature = trust().key_for(purpose).expect("both keys exist").sign(&part);
    let mut out = vec![1];
    wire::bytes::put_varint(&mut out, part.len() as u64);
    [&out[..], &part, &signature, hop].concat()
}

fn raw_plans(book: &Book) {
    let hop = [0, 0, 0, 0, 0, 0, 0, 1, 0, 0];
    for (name, about, plan) in [
        ("plan-65-faults", "more than 64 faults", [&[0u8, 65][..], &[1, 0, 0, 0, 0].repeat(17)].concat()),
        ("plan-empty", "a plan without a fault", vec![0, 0]),
        ("plan-unknown-kind", "kind 10", vec![0, 1, 10, 0, 0, 0, 0]),
        ("plan-kind-zero", "kind 0", vec![0, 1, 0, 0, 0, 0, 0]),
        ("plan-reserved-flag", "a flag nobody knows", vec![0, 1, 1, 32, 0, 0, 0]),
        ("plan-string-index", "a selector that points behind the string table", vec![1, 1, b'a', 1, 1, 0, 2, 0, 0]),
        ("plan-empty-string", "an empty string in the table", vec![1, 0, 1, 1, 0, 1, 0, 0]),
        ("plan-nth-zero", "nth is counted from 1", vec![0, 1, 1, 2, 0, 0, 0, 0]),
        ("plan-after-nine", "nine after entries", [&[0u8, 1, 1, 8, 0, 0, 0, 9][..], &[0, 0, 0, 1].repeat(9)].concat()),
        ("plan-after-zero-times", "an after entry that always holds", vec![0, 1, 1, 8, 0, 0, 0, 1, 0, 0, 0, 0]),
        ("plan-trailing", "a byte behind the last fault", vec![0, 1, 1, 0, 0, 0, 0, 0]),
        (
            "plan-varint-too-long",
            "a varint of eleven bytes",
            [&[0u8, 1, 5, 1, 0, 0, 0][..], &[0x80; 10], &[0]].concat(),
        ),
    ] {
        book.envelope("bad", name, about, &raw(&[3], &plan, &hop));
    }
}

fn send(at_us: u64, protocol: &str, authority: &str, name: &str) -> Value {
    json!({"at_us": at_us, "send": {"protocol": protocol, "authority": authority, "name": name}})
}

fn ended(at_us: u64, how: &str, call: u64, status: u64, history: Option<&[u8]>, gap: bool) -> Value {
    json!({"at_us": at_us, how: {"call": call, "status": status, "history": history.map(hex), "gap": gap}})
}

fn respond(at_us: u64, status: u64, name: &str) -> Value {
    json!({"at_us": at_us, "respond": {"status": status, "name": name}})
}

fn scope_input(trust: &str, plan: Option<Vec<Fault>>, steps: Vec<Value>) -> Value {
    let purpose = if plan.is_some() { Purpose::Fault } else { Purpose::Trace };
    json!({"trust": trust, "now": NOW, "service": "frontend", "peers": {"127.0.0.1:7001": "currency", "127.0.0.1:7002": "catalogue", "127.0.0.1:7003": "cart"},
        "envelope": hex(&seal(&signed(plan), purpose)), "start_us": 1_800_000_000_123_456u64, "steps": steps})
}

/// A child's history as the callee would send it: `sends` are (peer, name, status), negative: failed.
fn child(call: u64, service: &str, name: &str, sends: &[(&str, &str, i64)]) -> Vec<u8> {
    let envelope =
        Receiver::new(trust()).accept(&seal(&signed(None), Purpose::Trace), NOW, 0).expect("our own envelope");
    let mut envelope = envelope;
    envelope.hop.call = call;
    let mut scope = Scope::new(service, &envelope, 1_800_000_000_123_999, true);
    for (i, (peer, name, status)) in sends.iter().enumerate() {
        let at = 10 * (i as u64 + 1);
        let sent = scope.send(Protocol::Grpc, peer, name, at);
        let end = End { call: sent.number, status: status.unsigned_abs(), history: None, gap: true };
        if *status < 0 { scope.failed(end, at + 5) } else { scope.reply(end, at + 5) }
    }
    scope.respond(0, 300);
    scope.history(name)
}

const CURRENCY: &str = "127.0.0.1:7001";
const CATALOGUE: &str = "127.0.0.1:7002";
const GET: &str = "/shop.Currency/GetCurrencies";
const CONVERT: &str = "/shop.Currency/Convert";

fn scopes(book: &Book) {
    let id = |n| wire::call_id::derive(ROOT, n);
    book.good(
        "scope-tree",
        "scope",
        "two calls, one with a history of two levels, one without: the tree is embedded as it came",
        {
            let deep = child(id(1), "catalogue", "", &[("127.0.0.1:9", "/store.Store/Read", 0)]);
            scope_input(
                TRUST,
                None,
                vec![
                    send(100, "grpc", CATALOGUE, "/shop.Catalogue/ListProducts"),
                    ended(900, "reply", 1, 0, Some(&deep), false),
                    send(950, "http", "images.internal:80", "GET /img/1234/small.png?w=3"),
                    ended(1400, "reply", 2, 404, None, true),
                    respond(1500, 200, "GET /"),
                ],
            )
        },
    );
    book.good("scope-wrong-history", "scope", "somebody else's history is a gap", {
        let other = child(id(7), "currency", "", &[]);
        scope_input(
            TRUST,
            None,
            vec![send(10, "grpc", CURRENCY, GET), ended(20, "reply", 1, 0, Some(&other), false), respond(30, 200, "")],
        )
    });
    book.good("scope-concurrent", "scope", "calls that overlap end in any order", {
        let first = child(id(1), "currency", "", &[]);
        let second = child(id(2), "catalogue", "", &[]);
        scope_input(
            TRUST,
            None,
            vec![
                send(10, "grpc", CURRENCY, GET),
                send(11, "grpc", CATALOGUE, "/shop.Catalogue/ListProducts"),
                send(11, "grpc", "cart.prod.svc:80", "/shop.Cart/GetCart"),
                ended(50, "reply", 2, 0, Some(&second), false),
                ended(60, "reply", 1, 0, Some(&first), false),
                ended(70, "failed", 3, 4, None, true),
                respond(80, 500, ""),
            ],
        )
    });
    faulted_scopes(book);
}

fn faulted_scopes(book: &Book) {
    let id = |n| wire::call_id::derive(ROOT, n);
    let unavailable = |callee: &str, call: &str| Fault::new(FaultKind::Unavailable, select(callee, call));
    let round =
        |at: u64, n: u64, name: &str| vec![send(at, "grpc", CURRENCY, name), ended(at + 5, "reply", n, 0, None, true)];
    book.good(
        "scope-after",
        "scope",
        "a crash after an answered call persists",
        scope_input(
            TRUST,
            Some(vec![unavailable("currency", "").after(select("", "GetCurrencies"), 1)]),
            [
                round(10, 1, GET),
                vec![send(30, "grpc", CURRENCY, CONVERT), ended(31, "failed", 2, 14, None, false)],
                vec![
                    send(40, "grpc", CURRENCY, CONVERT),
                    ended(41, "failed", 3, 14, None, false),
                    respond(50, 500, "GET /"),
                ],
            ]
            .concat(),
        ),
    );
    book.good(
        "scope-after-failed-call",
        "scope",
        "a call that got no reply is not completed",
        scope_input(
            TRUST,
            Some(vec![unavailable("currency", "Convert").after(select("", "GetCurrencies"), 1)]),
            vec![
                send(10, "grpc", CURRENCY, GET),
                ended(20, "failed", 1, 14, None, true),
                send(30, "grpc", CURRENCY, CONVERT),
                ended(40, "reply", 2, 0, None, true),
                respond(50, 200, ""),
            ],
        ),
    );
    let mut sent = unavailable("currency", "Convert").after(select("", "GetCurrencies"), 1);
    sent.after_counts = AfterCounts::Sent;
    book.good(
        "scope-after-sent",
        "scope",
        "counting sent calls instead",
        scope_input(
            TRUST,
            Some(vec![sent]),
            vec![
                send(10, "grpc", CURRENCY, GET),
                send(11, "grpc", CURRENCY, CONVERT),
                ended(12, "failed", 2, 14, None, false),
                ended(20, "reply", 1, 0, None, true),
                respond(50, 200, ""),
            ],
        ),
    );
    let mut own = unavailable("currency", "Convert").after(select("currency", "Convert"), 2);
    own.after_counts = AfterCounts::Sent;
    book.good(
        "scope-after-sent-never-counts-itself",
        "scope",
        "the send being decided is not counted",
        scope_input(
            TRUST,
            Some(vec![own]),
            [
                round(10, 1, CONVERT),
                round(20, 2, CONVERT),
                vec![
                    send(30, "grpc", CURRENCY, CONVERT),
                    ended(31, "failed", 3, 14, None, false),
                    respond(40, 500, ""),
                ],
            ]
            .concat(),
        ),
    );
    book.good(
        "scope-nth",
        "scope",
        "only the second matching call; two faults on one call: the first in the plan wins",
        scope_input(
            TRUST,
            Some(vec![
                unavailable("currency", "Convert").nth(2),
                Fault::new(FaultKind::Status, select("", "Convert")).arg(13).nth(2),
                Fault::new(FaultKind::Delay, select("", "Convert")).arg(5).nth(3),
            ]),
            [
                round(10, 1, CONVERT),
                vec![send(20, "grpc", CURRENCY, CONVERT), ended(21, "failed", 2, 14, None, false)],
                round(30, 3, CONVERT),
                vec![respond(40, 200, "")],
            ]
            .concat(),
        ),
    );
    let mut limited = unavailable("currency", "");
    limited.max_fires = 1;
    book.good("scope-max-fires-below", "scope", "fires that happened below are counted from the returned events", {
        // a child that fired fault 0 at its own call
        let plan = vec![limited.clone()];
        let envelope = Receiver::new(trust())
            .accept(&seal(&signed(Some(plan.clone())), Purpose::Fault), NOW, 0)
            .expect("our own envelope");
        let mut envelope = envelope;
        envelope.hop.call = id(1);
        let mut below = Scope::new("checkout", &envelope, 1_800_000_000_124_000, true);
        let sent = below.send(Protocol::Grpc, "currency", CONVERT, 5);
        below.failed(End { call: sent.number, status: 14, history: None, gap: false }, 6);
        below.respond(0, 9);
        let history = below.history("");
        scope_input(
            TRUST,
            Some(plan),
            vec![
                send(10, "grpc", "127.0.0.1:7009", "/shop.Checkout/Place"),
                ended(30, "reply", 1, 0, Some(&history), false),
                send(40, "grpc", CURRENCY, CONVERT),
                ended(50, "reply", 2, 0, None, true),
                respond(60, 200, ""),
            ],
        )
    });
    book.good(
        "scope-evidence-from-below",
        "scope",
        "completed calls of callees satisfy a prerequisite, also those of a call whose reply was lost",
        {
            let history = child(
                id(1),
                "checkout",
                "",
                &[("currency", CONVERT, 0), ("currency", CONVERT, -14), ("cart", "/shop.Cart/GetCart", 0)],
            );
            let lost = child(id(2), "catalogue", "", &[("currency", CONVERT, 0)]);
            scope_input(
                TRUST,
                Some(vec![
                    unavailable("currency", "").after(select("", "Convert"), 2).after(select("cart", ""), 1),
                    Fault::new(FaultKind::LostReply, select("catalogue", "")),
                ]),
                vec![
                    send(10, "grpc", "127.0.0.1:7009", "/shop.Checkout/Place"),
                    ended(30, "reply", 1, 0, Some(&history), false),
                    send(40, "grpc", CATALOGUE, "/shop.Catalogue/ListProducts"),
                    ended(45, "failed", 2, 14, Some(&lost), false),
                    send(50, "grpc", CURRENCY, CONVERT),
                    ended(51, "failed", 3, 14, None, false),
                    respond(60, 500, ""),
                ],
            )
        },
    );
    book.good(
        "scope-http-template",
        "scope",
        "a selector written as a template meets the raw path at the caller",
        scope_input(
            TRUST,
            Some(vec![Fault::new(FaultKind::EmptyReply, select("cart", "GET /cart/{user}/items"))]),
            vec![
                send(10, "http", "127.0.0.1:7003", "GET /cart/alice/items?limit=3"),
                ended(20, "reply", 1, 200, None, true),
                send(30, "http", "127.0.0.1:7003", "GET /cart/alice"),
                ended(40, "reply", 2, 200, None, true),
                respond(50, 200, ""),
            ],
        ),
    );
    let off = TRUST.replace("faults on", "faults off");
    book.good(
        "scope-faults-off",
        "scope",
        "the switch: the plan travels on, nothing fires, the segment says so",
        scope_input(
            &off,
            Some(vec![unavailable("currency", "").nth(1)]),
            [round(10, 1, GET), vec![respond(20, 200, "")]].concat(),
        ),
    );
}

fn histories(book: &Book) {
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
            scope.send(Protocol::Grpc, "checkout", "/shop.Checkout/Place", n * 100);
            let below = child(
                wire::call_id::derive(ROOT, n),
                "checkout",
                "",
                &[("currency", CONVERT, 0), ("cart", "/shop.Cart/GetCart", 0)],
            );
            scope.reply(End { call: n, status: 0, history: Some(&below), gap: false }, n * 100 + 50);
        }
        scope.respond(200, 900);
        scope.history("GET /")
    };
    book.good("history-nested", "history", "six calls with children", json!({"bytes": hex(&nested)}));
    for (name, limit) in [
        ("truncate-not-needed", nested.len()),
        ("truncate-children", 150),
        ("truncate-events", 90),
        ("truncate-impossible", 20),
    ] {
        book.good(
            name,
            "truncate",
            "see the format, «Truncating to a limit»",
            json!({"history": hex(&nested), "limit": limit}),
        );
    }
    let bad =
        |name: &str, about: &str, bytes: &[u8]| book.write("bad", name, "history", about, json!({"bytes": hex(bytes)}));
    bad("history-cut", "ends inside an event", &deep[..deep.len() - 1]);
    bad("history-version", "a version of tomorrow", &[&[2], &deep[1..]].concat());
    bad("history-empty", "no bytes", &[]);
    let frame = |events: &[u8]| [&[1][..], &id.to_be_bytes(), &[0, 1, b'a', 0, 0], events].concat();
    bad("history-answer-before-call", "a reply to a call that was never sent", &frame(&[2, 0, 1, 0]));
    bad("history-answered-twice", "two replies to one call", &frame(&[1, 0, 0, 1, b'x', 1, 2, 0, 1, 0, 2, 0, 1, 0]));
    bad("history-after-the-end", "an event behind SEND_RESPONSE", &frame(&[4, 0, 0, 4, 0, 0]));
    bad("history-reference", "a string that is not in the table", &frame(&[1, 0, 2, 1]));
    bad("history-kind", "event kind 5", &frame(&[5, 0, 0]));
    bad("history-reserved-flag", "an event flag nobody knows", &frame(&[0x21, 0, 0, 1, b'x', 1]));
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

fn carriers(book: &Book) {
    let history = child(ROOT, "currency", "", &[]);
    for (name, message) in [("field", "0a03616263"), ("field-empty-message", "")] {
        book.good(
            name,
            "field",
            "appended to a serialized message",
            json!({"message": message, "history": hex(&history)}),
        );
    }
    book.good("tail", "tail", "behind a body", json!({"message": hex(b"<html></html>"), "history": hex(&history)}));
    let with_field = wire::carrier::append_field(b"\x0a\x03abc", &history);
    let with_tail = wire::carrier::append_tail(b"<html></html>", &history);
    book.good("cut-field", "cut_field", "the field leaves before parsing", json!({"bytes": hex(&with_field)}));
    book.good("cut-tail", "cut_tail", "the tail leaves", json!({"bytes": hex(&with_tail)}));
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
    for (name, edit, expected) in [
        ("small", json!({"history_bytes": 768}), "header"),
        ("large", json!({"history_bytes": 769}), "tail"),
        ("not-accepted", json!({"accept": []}), "truncated_header"),
        ("not-found", json!({"status": 404}), "tail"),
        ("server-error", json!({"status": 500}), "tail"),
        ("created", json!({"status": 201}), "truncated_header"),
        ("redirect", json!({"status": 302}), "truncated_header"),
        ("not-modified", json!({"status": 304}), "truncated_header"),
        ("head", json!({"method": "HEAD"}), "truncated_header"),
        ("encoded", json!({"headers": {"content-encoding": "gzip"}}), "truncated_header"),
        ("identity", json!({"headers": {"content-encoding": "identity"}}), "tail"),
        ("digest", json!({"headers": {"repr-digest": "sha-256=:x:"}}), "truncated_header"),
        ("range", json!({"request_headers": {"range": "bytes=0-3"}}), "truncated_header"),
        ("incomplete", json!({"complete": false}), "truncated_header"),
    ] {
        let mut input = json!({"method": "GET", "request_headers": {}, "status": 200, "headers": {"content-type": "text/html"}, "complete": true, "accept": ["tail"], "history_bytes": 5000});
        for (key, value) in edit.as_object().expect("an object") {
            input[key] = value.clone();
        }
        let got = wire::conform::result("carrier", &input).expect("documented shape");
        assert_eq!(got["carrier"], expected, "{name}");
        book.good(&format!("carrier-{name}"), "carrier", "see the format, «Carriers of the history»", input);
    }
}

fn small_things(book: &Book) {
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
    book.good("name", "name", "route templates instead of raw URLs", json!({"requests": [
        request("GET", "/"), request("GET", ""), request("GET", "/cart/123?x=1"), request("POST", "/a/550e8400-e29b-41d4-a716-446655440000/b"),
        request("GET", "/c/deadbeef"), request("GET", "/c/deadbee1"), request("GET", "/c/beef1"), request("GET", "/product/mug-01"),
        request("GET", "/t/abcdefghijklmnopqrst"), request("GET", "/t/abcdefghijklmnopqrs1"), request("GET", "/v1/items#frag"), request("GET", &format!("/{}", "ä".repeat(150))),
    ]}));
}

fn main() {
    let dir = PathBuf::from(std::env::args().nth(1).expect("usage: wire-vectors VECTOR-DIR"));
    for group in ["good", "bad"] {
        let folder = dir.join(group);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("the vector folder is writable");
    }
    let book = Book { dir };
    envelopes(&book);
    scopes(&book);
    histories(&book);
    carriers(&book);
    small_things(&book);
}
