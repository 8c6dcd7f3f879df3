//! Envelopes across hops that know OpenTelemetry only: the W3C headers `traceparent` and `baggage`.
//!
//! Such a hop passes both headers on without knowing us. It puts an id of its own into `traceparent`, which therefore
//! stands for the call whoever opens a scope behind it. Source: the format, "Bridge".

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

pub const BAGGAGE_BYTES_MAX: usize = 8192;
const KEY: &str = "faultloom";
const BLANKS: [char; 2] = [' ', '\t'];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    pub trace_id: [u8; 16],
    pub parent: u64,
}

impl TraceParent {
    pub fn parse(text: &str) -> Option<TraceParent> {
        let bytes = text.as_bytes();
        if bytes.len() < 55 || [2, 35, 52].iter().any(|at| bytes[*at] != b'-') {
            return None;
        }
        let digits = |from: usize, to: usize| {
            let part = &bytes[from..to];
            let hex = part.iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
            // what is all hex digits is also text
            if hex { std::str::from_utf8(part).ok().and_then(|t| u128::from_str_radix(t, 16).ok()) } else { None }
        };
        let (version, trace, parent) = (digits(0, 2)?, digits(3, 35)?, digits(36, 52)?);
        digits(53, 55)?;
        let more_is_allowed = version != 0 && bytes.get(55) == Some(&b'-');
        if version == 0xff || (bytes.len() > 55 && !more_is_allowed) || trace == 0 || parent == 0 {
            return None;
        }
        Some(TraceParent { trace_id: trace.to_be_bytes(), parent: parent as u64 })
    }

    /// The text a starter writes: this version, sampled.
    pub fn to_text(self) -> String {
        format!("00-{:032x}-{:016x}-01", u128::from_be_bytes(self.trace_id), self.parent)
    }
}

/// What stands before a member's first `=`; a member without one has no key.
fn key_and_value(member: &str) -> Option<(&str, &str)> {
    let (plain, _properties) = member.split_once(';').unwrap_or((member, ""));
    let (key, value) = plain.split_once('=')?;
    Some((key.trim_matches(BLANKS), value.trim_matches(BLANKS)))
}

/// `traceparent` as it leaves: what the request has, else one of our own.
pub fn traceparent_out(present: Option<&str>, own: TraceParent) -> String {
    present.filter(|text| !text.is_empty()).map_or_else(|| own.to_text(), str::to_owned)
}

/// `baggage` as it leaves, or None if it would be empty.
pub fn baggage_out(present: Option<&str>, envelope: &[u8]) -> Option<String> {
    let members = present.unwrap_or_default().split(',').map(|member| member.trim_matches(BLANKS));
    let others = members.filter(|m| !m.is_empty() && key_and_value(m).is_none_or(|(key, _)| key != KEY));
    let mut baggage = others.collect::<Vec<_>>().join(",");
    let own = format!("{KEY}={}", URL_SAFE_NO_PAD.encode(envelope));
    let comma = if baggage.is_empty() { "" } else { "," };
    if baggage.len() + comma.len() + own.len() <= BAGGAGE_BYTES_MAX {
        baggage = baggage + comma + &own;
    }
    (!baggage.is_empty()).then_some(baggage)
}

/// Where a request's envelope is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrival<'a> {
    /// In our own carrier.
    Own(&'a str),
    /// In `baggage`, with the call id that takes the place of the hop part's.
    Baggage {
        envelope: &'a str,
        call: u64,
    },
    None,
}

/// Looks into a request's headers, by lower-case name.
pub fn arrival<'a>(header: impl Fn(&str) -> Option<&'a str>) -> Arrival<'a> {
    if let Some(own) = header("x-faultloom") {
        return Arrival::Own(own);
    }
    let member =
        header("baggage").unwrap_or_default().split(',').filter_map(key_and_value).find(|(key, _)| *key == KEY);
    match (member, header("traceparent").and_then(TraceParent::parse)) {
        (Some((_, envelope)), Some(parent)) => Arrival::Baggage { envelope, call: parent.parent },
        _ => Arrival::None,
    }
}
