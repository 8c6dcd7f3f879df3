//! Refused envelopes, one per check and per way to fail it.

use crate::book::*;
use model::{Fault, FaultKind};
use serde_json::json;
use wire::trust::Purpose;

pub fn write(book: &Book) {
    let plain = &seal(&signed(None), Purpose::Trace)[..];
    let plan = Some(vec![Fault::new(FaultKind::Unavailable, select("currency", "Convert")).nth(1)]);
    let planned = &seal(&signed(plan.clone()), Purpose::Fault)[..];
    let bad = |name: &str, about: &str, bytes: &[u8]| book.envelope("bad", name, about, bytes);
    book.write("bad", "replayed", "envelope", "a plan is accepted once per call", attempts(&[planned, planned]));
    bad("oversized", "2049 bytes", &[plain, &vec![0; 2049 - plain.len()]].concat());
    book.write(
        "bad",
        "oversized-header",
        "envelope",
        "a header of 2732 characters",
        json!({"trust": TRUST, "now": NOW, "attempts": [{"carrier": "http", "value": "A".repeat(2732), "attempt": 0}]}),
    );
    let beyond_ascii = |text: String| json!({"carrier": "http", "value": text, "attempt": 0});
    book.write(
        "bad",
        "oversized-header-bytes",
        "envelope",
        "2732 bytes in 1366 characters, and 2731 bytes: the size is checked first, in bytes",
        json!({"trust": TRUST, "now": NOW,
            "attempts": [beyond_ascii("é".repeat(1366)), beyond_ascii("é".repeat(1365) + "A")]}),
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
    bad("foreign", "bytes of another program in our header", b"\x0a\x10some other tool\x12\x04abcd");
    bad("truncated", "the last byte of the hop part is missing", &plain[..plain.len() - 1]);
    let hop = plain.len() - 8 - 1 - 4;
    for (name, about, bytes) in [
        ("hop-missing", "no hop part", 0),
        ("hop-half-call-id", "half a call id in the hop part", 4),
        ("hop-call-id-only", "a call id alone in the hop part", 8),
    ] {
        bad(name, about, &plain[..hop + bytes]);
    }
    bad("truncated-signature", "ends inside the signature", &plain[..plain.len() - 18]);
    bad("trailing", "an extra byte after the hop part", &[plain, &[0]].concat());
    bad(
        "length-lies",
        "the signed part claims to be longer than the envelope",
        &[&[1, 0xff, 0x0f], &plain[2..]].concat(),
    );
    let mut version = plain.to_vec();
    version[0] = 2;
    bad("version", "an unsupported version", &version);
    let at = |needle: &[u8]| plain.windows(needle.len()).position(|w| w == needle).expect("it is in there");
    let mut unsigned = plain.to_vec();
    let signature = 2 + usize::from(plain[1]);
    unsigned[signature..signature + 16].fill(0);
    bad("unsigned", "a signature of sixteen zero bytes", &unsigned);
    let mut flipped = plain.to_vec();
    flipped[at(&TRACE)] ^= 1;
    bad("bad-signature", "one bit of the trace id was changed", &flipped);
    let mut key = plain.to_vec();
    key[at(b"t1") + 1] = b'9';
    bad("unknown-key", "a key id of another environment", &key);
    let mut other = signed(None);
    other.environment = "production".into();
    bad("wrong-environment", "a valid signature, for another environment", &seal(&other, Purpose::Trace));
    let mut late = signed(None);
    late.expires = NOW;
    bad("expired", "expiry equals the current second", &seal(&late, Purpose::Trace));
    let mut far = signed(None);
    far.expires = NOW + 601;
    bad("expiry-too-far", "ten minutes and a second ahead", &seal(&far, Purpose::Trace));
    bad("plan-with-trace-key", "a trace key cannot sign a plan", &seal(&signed(plan), Purpose::Trace));
    raw_plans(book);
    for bit in [16, 32, 64, 128] {
        bad(&format!("reserved-permission-{bit}"), "an undefined permission bit", &raw(1 | bit, &[], &[0; 10]));
    }
    bad("run-missing", "the permission byte announces a run id, and none follows", &raw(1 | 4, &[], &[0; 10]));
    bad("run-unannounced", "a run id that the permission byte does not announce", &{
        let mut part = vec![1];
        part.extend_from_slice(&TRACE);
        part.extend_from_slice(b"run-0123456789ab");
        part.extend_from_slice(&((NOW + 60) as u32).to_be_bytes());
        part.extend_from_slice(b"\x02t1\x04demo");
        close(part, &[0; 10], Purpose::Trace)
    });
    bad("reserved-accept", "an undefined accept bit", &raw(1, &[], &[0, 0, 0, 0, 0, 0, 0, 1, 4, 0]));
    bad(
        "evidence-missing",
        "a plan with counters, a hop part without",
        &raw(3, &[0, 1, 1, 2, 0, 0, 0, 1], &[0, 0, 0, 0, 0, 0, 0, 1, 0, 0]),
    );
    bad("not-utf8", "an environment that is not UTF-8", &{
        let mut part = vec![1];
        part.extend_from_slice(&TRACE);
        part.extend_from_slice(&((NOW + 60) as u32).to_be_bytes());
        part.extend_from_slice(b"\x02t1\x02\xff\xfe");
        close(part, &[0; 10], Purpose::Trace)
    });
}

/// A signed envelope with the given plan and hop bytes.
fn raw(permissions: u8, plan: &[u8], hop: &[u8]) -> Vec<u8> {
    let mut part = vec![permissions];
    part.extend_from_slice(&TRACE);
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
        ("plan-reserved-flag", "an undefined flag", vec![0, 1, 1, 32, 0, 0, 0]),
        ("plan-string-index", "a selector whose index is beyond the string table", vec![1, 1, b'a', 1, 1, 0, 2, 0, 0]),
        ("plan-empty-string", "an empty string in the table", vec![1, 0, 1, 1, 0, 1, 0, 0]),
        ("plan-nth-zero", "nth is counted from 1", vec![0, 1, 1, 2, 0, 0, 0, 0]),
        ("plan-after-nine", "nine after entries", [&[0u8, 1, 1, 8, 0, 0, 0, 9][..], &[0, 0, 0, 1].repeat(9)].concat()),
        ("plan-after-zero-times", "an after entry with times 0", vec![0, 1, 1, 8, 0, 0, 0, 1, 0, 0, 0, 0]),
        ("plan-trailing", "a byte after the last fault", vec![0, 1, 1, 0, 0, 0, 0, 0]),
        (
            "plan-varint-too-long",
            "a varint of eleven bytes",
            [&[0u8, 1, 5, 1, 0, 0, 0][..], &[0x80; 10], &[0]].concat(),
        ),
    ] {
        book.envelope("bad", name, about, &raw(3, &plan, &hop));
    }
}
