//! Envelopes that are accepted.

use crate::book::*;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use model::fault::AfterCounts;
use model::{Fault, FaultKind, Selector};
use serde_json::json;
use wire::bytes::hex;
use wire::envelope::Signed;
use wire::trust::Purpose;

pub fn write(book: &Book) {
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
    let selector = Selector { caller: "frontend".into(), ..select("currency", "/shop.Currency/Convert") };
    let many = (1..=64).map(|n| Fault::new(FaultKind::Unavailable, selector.clone()).nth(n)).collect();
    let big = seal(&signed(Some(many)), Purpose::Fault);
    assert!(big.len() <= 2048, "a plan of 64 faults must fit, this has {} bytes", big.len());
    book.envelope("good", "envelope-64-faults", "a plan of 64 faults fits", &big);
    book.good("envelope-http", "envelope", "the same envelope in an HTTP header",
        json!({"trust": TRUST, "now": NOW, "attempts": [{"carrier": "http", "value": URL_SAFE_NO_PAD.encode(&all), "attempt": 0}]}));
    book.good("envelope-transparent-retry", "envelope", "the same call id with another attempt number is a retry, not a replay",
        json!({"trust": TRUST, "now": NOW, "attempts": [{"carrier": "grpc", "value": hex(&all), "attempt": 0}, {"carrier": "grpc", "value": hex(&all), "attempt": 1}]}));
    book.good(
        "envelope-history-twice",
        "envelope",
        "without a plan, a second copy is accepted",
        attempts(&[&plain, &plain]),
    );
    book.good("envelope-last-second", "envelope", "expiry one second ahead, and exactly ten minutes ahead", {
        let mut near = signed(None);
        near.expires = NOW + 1;
        let mut far = signed(None);
        far.expires = NOW + 600;
        attempts(&[&seal(&near, Purpose::Trace), &seal(&far, Purpose::Trace)])
    });
    permissions(book);
    repeated(book, &plain, &all);
}

/// Requests that carry more than one envelope.
fn repeated(book: &Book, plain: &[u8], planned: &[u8]) {
    let (text, other) = (URL_SAFE_NO_PAD.encode(plain), URL_SAFE_NO_PAD.encode(planned));
    let write = |name: &str, about: &str, attempts: serde_json::Value| {
        let input = json!({"trust": TRUST, "now": NOW, "attempts": attempts});
        book.good(&format!("envelope-{name}"), "envelope", about, input);
    };
    let http = |lines: &[String]| json!({"carrier": "http", "values": lines, "attempt": 0});
    let grpc = |values: &[&[u8]], field: Option<&[u8]>| {
        let values: Vec<String> = values.iter().map(|value| hex(value)).collect();
        json!({"carrier": "grpc", "values": values, "field": field.map(hex), "attempt": 0})
    };
    let joined = |a: &str, b: &str| format!("{a}, {b}");
    write(
        "header-repeated",
        "of several lines the last counts, also if it is refused, and also if a server has joined them",
        json!([
            http(&[other.clone(), text.clone()]),
            http(&[text.clone(), "AQ".into()]),
            http(&[joined(&other, &text)]),
            http(&[joined(&text, "AQ")]),
            http(&[text.clone(), joined("AQ", &other)]),
            http(&[text.clone(), String::new()]),
        ]),
    );
    let long = "A".repeat(2732);
    write(
        "header-repeated-size",
        "the limit of the size is that of the value that counts",
        json!([http(&[long.clone(), text.clone()]), http(&[joined(&long, &text)]), http(&[joined(&text, &long)])]),
    );
    write(
        "metadata-repeated",
        "of several values the last counts, also if it is refused or empty",
        json!([grpc(&[planned, plain], None), grpc(&[plain, &[1]], None), grpc(&[plain, &[]], None)]),
    );
    write(
        "field-and-metadata",
        "a field alone counts, also if it is refused or empty and the metadata is not",
        json!([
            grpc(&[planned], Some(plain)),
            grpc(&[plain], Some(&[2, 0])),
            grpc(&[plain], Some(&[])),
            grpc(&[&[2, 0]], Some(plain))
        ]),
    );
}

/// The bits of the permission byte other than history and plan.
fn permissions(book: &Book) {
    let run = Some(*b"run-0123456789ab");
    for (name, about, run, bridge) in [
        ("envelope-run", "with a run id between trace id and expiry", run, false),
        ("envelope-bridge", "may also travel in baggage", None, true),
        ("envelope-run-bridge", "both", run, true),
    ] {
        let signed = Signed { run, bridge, ..signed(None) };
        book.envelope("good", name, about, &seal(&signed, Purpose::Trace));
    }
    let plan = vec![Fault::new(FaultKind::Unavailable, select("currency", "Convert")).nth(2)];
    let all = Signed { run, bridge: true, ..signed(Some(plan)) };
    book.envelope("good", "envelope-all-permissions", "history, plan, run, bridge", &seal(&all, Purpose::Fault));
    let nothing = Signed { history: false, ..signed(None) };
    book.envelope("good", "envelope-no-permission", "accepted, but permits nothing", &seal(&nothing, Purpose::Trace));
}
