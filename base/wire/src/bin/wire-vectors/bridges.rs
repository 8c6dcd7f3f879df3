//! Bridges: outgoing and incoming `traceparent` and `baggage`, and envelopes accepted from them.

use crate::book::*;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use model::{Fault, FaultKind};
use serde_json::{Value, json};
use wire::bytes::hex;
use wire::envelope::Signed;
use wire::trust::Purpose;

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn bridged(plan: Option<Vec<Fault>>) -> Vec<u8> {
    let purpose = if plan.is_some() { Purpose::Fault } else { Purpose::Trace };
    seal(&Signed { bridge: true, ..signed(plan) }, purpose)
}

pub fn write(book: &Book) {
    traceparents(book);
    out(book);
    arrivals(book);
    accepted(book);
}

fn traceparents(book: &Book) {
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let parent = "b7ad6b7169203331";
    book.good("traceparent", "traceparent", "valid: this version, any flags, a future version", json!({"values": [
        PARENT, format!("00-{trace}-{parent}-00"), format!("00-{trace}-{parent}-ff"), format!("01-{trace}-{parent}-01"),
        format!("fe-{trace}-{parent}-01-what comes later"), format!("cc-{trace}-{parent}-01-"),
        "00-00000000000000000000000000000001-0000000000000001-01", "00-ffffffffffffffffffffffffffffffff-ffffffffffffffff-01"]}));
    let values = json!({"values": ["", "00", format!("00-{trace}-{parent}-0"), format!("00-{trace}-{parent}-011"),
        format!("00-{trace}-{parent}-01-more"), format!("cc-{trace}-{parent}-01.more"), format!("cc-{trace}-{parent}-011"),
        format!("ff-{trace}-{parent}-01"), format!("00-{}-{parent}-01", trace.to_uppercase()),
        format!("00-{trace}-{}-01", parent.to_uppercase()), format!("0A-{trace}-{parent}-01"), format!("00-{trace}-{parent}-0A"),
        format!("00-{}-{parent}-01", "0".repeat(32)), format!("00-{trace}-{}-01", "0".repeat(16)),
        format!("00_{trace}-{parent}-01"), format!("00-{trace}_{parent}-01"), format!("00-{trace}-{parent}_01"),
        format!(" {PARENT}"), format!("{PARENT} "), format!("00-+{}-{parent}-01", &trace[1..]), format!("00-{}ä-{parent}-01", &trace[2..])]});
    book.write("bad", "traceparent", "traceparent", "invalid values", values);
}

fn out(book: &Book) {
    let envelope = bridged(None);
    let trace = hex(&TRACE);
    let call = format!("{ROOT:016x}");
    let leave = |name: &str, about: &str, headers: Value| {
        let input = json!({"envelope": hex(&envelope), "trace": trace, "call": call, "headers": headers});
        book.good(&format!("bridge-out-{name}"), "bridge_out", about, input);
    };
    leave("fresh", "a request without either header", json!({}));
    leave("traceparent", "the application's own is kept", json!({"traceparent": PARENT}));
    leave("traceparent-invalid", "an invalid one is kept", json!({"traceparent": "nonsense"}));
    leave("traceparent-empty", "an empty one is replaced", json!({"traceparent": ""}));
    leave(
        "others",
        "other members keep their properties and their order",
        json!({"baggage": "user=alice, tier=gold;ttl=3;private , empty=,odd,faultloomx=1,Faultloom=2"}),
    );
    leave(
        "older",
        "earlier members of ours are replaced by one",
        json!({"baggage": "faultloom=AQ,user=alice, faultloom = AQ;x=1,z=1"}),
    );
    leave("blanks", "blank members are removed", json!({"baggage": " ,, \t,user=alice, "}));
    leave(
        "key-in-property",
        "a key is the text before the first =, which must come before any ;",
        json!({"baggage": "a;faultloom=1,b=faultloom=2"}),
    );
    leave("no-key", "a member without = before any ; has no key", json!({"baggage": "faultloom ;=1,faultloom"}));
    leave(
        "other-space",
        "only blanks and tabs are not part of a member",
        json!({"baggage": "\u{a0}faultloom=1,user=\u{a0}"}),
    );
    let own = "faultloom=".len() + envelope.len().div_ceil(3) * 4 - [0, 2, 1][envelope.len() % 3];
    let room = 8192 - own - ",user=".len();
    leave("limit", "8192 bytes are allowed", json!({"baggage": format!("user={}", "a".repeat(room))}));
    leave(
        "over-limit",
        "one byte too many: our member is left out, the others stay",
        json!({"baggage": format!("user={}", "a".repeat(room + 1))}),
    );
    leave(
        "over-limit-older",
        "if ours does not fit, an earlier one is removed too",
        json!({"baggage": format!("faultloom=AQ,user={}", "a".repeat(8190))}),
    );
}

fn arrivals(book: &Book) {
    let text = URL_SAFE_NO_PAD.encode(bridged(None));
    let arrive = |name: &str, about: &str, headers: Value, carrier: &str| {
        let input = json!({"headers": headers});
        let got = wire::conform::result("bridge_in", &input).expect("documented shape");
        assert_eq!(got["carrier"], carrier, "{name}");
        book.good(&format!("bridge-in-{name}"), "bridge_in", about, input);
    };
    let member = |member: String| json!({"traceparent": PARENT, "baggage": member});
    arrive(
        "own",
        "our own header takes precedence",
        json!({"x-faultloom": "AQ", "traceparent": PARENT, "baggage": format!("faultloom={text}")}),
        "own",
    );
    arrive("own-alone", "our own header, without a bridge", json!({"x-faultloom": text}), "own");
    arrive("baggage", "an envelope, and the call id of the sender", member(format!("faultloom={text}")), "baggage");
    arrive("others", "among other members", member(format!("user=alice,faultloom={text},z=1")), "baggage");
    arrive(
        "blanks",
        "blanks and properties are dropped",
        member(format!("a=1 , \tfaultloom \t=  {text} ;p=1; q ,z=1")),
        "baggage",
    );
    arrive("twice", "the first one counts", member("faultloom=AQ,faultloom=Ag".into()), "baggage");
    arrive("empty-value", "an empty value is an envelope of no bytes", member("faultloom=".into()), "baggage");
    arrive(
        "equals",
        "a value may contain any text; the acceptance checks decide",
        member("faultloom=AQ==".into()),
        "baggage",
    );
    arrive("other-case", "keys are case-sensitive", member(format!("Faultloom={text}")), "none");
    arrive("no-value", "a member without = has no key", member("faultloom,faultloom;x=1".into()), "none");
    arrive(
        "no-traceparent",
        "without traceparent there is no call id",
        json!({"baggage": format!("faultloom={text}")}),
        "none",
    );
    arrive(
        "bad-traceparent",
        "with an invalid traceparent the envelope is ignored",
        json!({"traceparent": PARENT.to_uppercase(), "baggage": format!("faultloom={text}")}),
        "none",
    );
    arrive("no-baggage", "traceparent without baggage", json!({"traceparent": PARENT}), "none");
    arrive("nothing", "neither header", json!({}), "none");
}

fn accepted(book: &Book) {
    let plan = || Some(vec![Fault::new(FaultKind::Unavailable, select("currency", "Convert")).nth(2)]);
    let arrival = |envelope: &[u8], call: u64| json!({"carrier": "baggage", "value": URL_SAFE_NO_PAD.encode(envelope), "call": format!("{call:016x}"), "attempt": 0});
    let attempts = |list: Vec<Value>| json!({"trust": TRUST, "now": NOW, "attempts": list});
    let one = bridged(plan());
    book.good(
        "envelope-bridged",
        "envelope",
        "the call id is from the bridge, no carrier is accepted, evidence stays",
        attempts(vec![arrival(&bridged(None), 7), arrival(&one, 8), arrival(&one, 9)]),
    );
    book.write(
        "bad",
        "bridged-replay",
        "envelope",
        "an identical copy is detected by the call id from the bridge",
        attempts(vec![arrival(&one, 7), arrival(&one, 7)]),
    );
    let long = json!({"carrier": "baggage", "value": "A".repeat(2732), "call": "0000000000000007", "attempt": 0});
    let wide = json!({"carrier": "baggage", "value": "é".repeat(1366), "call": "0000000000000007", "attempt": 0});
    let garbage = json!({"carrier": "baggage", "value": "AQ==", "call": "0000000000000007", "attempt": 0});
    book.write(
        "bad",
        "bridged-garbage",
        "envelope",
        "values that are too long, in characters and in bytes, one that is not base64url",
        attempts(vec![long, wide, garbage]),
    );
}
