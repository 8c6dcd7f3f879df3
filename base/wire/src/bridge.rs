//! Envelopes across services that support only OpenTelemetry: the W3C headers `traceparent` and `baggage`.
//!
//! Such a service forwards both headers and puts its own span id into `traceparent`. The next service with an SDK uses
//! that id as the call id of its scope. Source: the format, "Bridge".

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
            // hex digits are valid UTF-8
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

    /// As the program that starts a request writes it: version 00, sampled.
    pub fn to_text(self) -> String {
        format!("00-{:032x}-{:016x}-01", u128::from_be_bytes(self.trace_id), self.parent)
    }
}

/// Key and value of a member of `baggage`; None if it has no `=`.
fn key_and_value(member: &str) -> Option<(&str, &str)> {
    let (plain, _properties) = member.split_once(';').unwrap_or((member, ""));
    let (key, value) = plain.split_once('=')?;
    Some((key.trim_matches(BLANKS), value.trim_matches(BLANKS)))
}

/// The `traceparent` to send: the request's own, else `own`.
pub fn traceparent_out(present: Option<&str>, own: TraceParent) -> String {
    present.filter(|text| !text.is_empty()).map_or_else(|| own.to_text(), str::to_owned)
}

/// The `baggage` to send; None if it would be empty. The envelope is left out if it does not fit.
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

/// The envelope of an incoming request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IncomingEnvelope<'a> {
    /// From our own header.
    Own(&'a str),
    /// From `baggage`. `call` replaces the call id of the hop part.
    Baggage {
        envelope: &'a str,
        call: u64,
    },
    None,
}

/// Finds the envelope in a request's headers; `header` gets a name in lower case.
pub fn find_envelope<'a>(header: impl Fn(&str) -> Option<&'a str>) -> IncomingEnvelope<'a> {
    if let Some(own) = header("x-faultloom") {
        return IncomingEnvelope::Own(own);
    }
    let member =
        header("baggage").unwrap_or_default().split(',').filter_map(key_and_value).find(|(key, _)| *key == KEY);
    match (member, header("traceparent").and_then(TraceParent::parse)) {
        (Some((_, envelope)), Some(parent)) => IncomingEnvelope::Baggage { envelope, call: parent.parent },
        _ => IncomingEnvelope::None,
    }
}
