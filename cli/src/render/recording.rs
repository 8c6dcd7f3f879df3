//! A finished recording in a terminal.

use super::html_text::without_markup;
use app::kinds::recording::INSECURE;
use app::kinds::recording::record::{Body, Recorded};
use app::text::{grouped, milliseconds, plural, printable};

/// Of a body, in a terminal.
const EXCERPT_CHARS: usize = 200;
/// Of a body, in JSON.
const BODY_BYTES_MAX: usize = 64 << 10;

/// The figures in words, and why requests failed.
pub fn sentence(recorded: &Recorded) -> String {
    let (trace, assessment) = (&recorded.trace, &recorded.assessment);
    let gaps = match trace.gaps() {
        0 => "no gaps".to_owned(),
        n => plural(n as u64, "gap"),
    };
    let mut text = format!(
        "{} messages, {} events, {}, {gaps}, history {} bytes",
        grouped(trace.messages() as u64),
        grouped(trace.events() as u64),
        plural(trace.services().len() as u64, "service"),
        grouped(recorded.history_bytes as u64)
    );
    let latencies = &assessment.latencies_us;
    if latencies.len() > 1 {
        text += &format!(
            "; {} requests, {} failed, median {}, slowest {}",
            grouped(latencies.len() as u64),
            assessment.failures,
            milliseconds(latencies[latencies.len() / 2]),
            milliseconds(latencies[latencies.len() - 1])
        );
    }
    if !assessment.reasons.is_empty() {
        text += &format!("\nfailed: {}", printable(&assessment.reasons.join("; ")));
    }
    text
}

/// What else a reader must know about the request.
pub fn remarks(recorded: &Recorded) -> Vec<String> {
    let mut lines = Vec::new();
    if recorded.is_insecure {
        lines.push(INSECURE.to_owned());
    }
    for redirect in &recorded.redirects {
        let calls = plural(redirect.calls as u64, "call");
        let (from, to) = (printable(&redirect.from), printable(&redirect.to));
        lines.push(format!("redirected: {} {from} ({calls}) → {to}", redirect.status));
    }
    if let Some(to) = &recorded.location {
        lines.push(format!("redirects to {}, not followed (--follow)", printable(to)));
    }
    lines
}

/// The HTTP status of a service that refused the request, if that is why the recording failed.
pub fn refused_with(recorded: &Recorded) -> Option<u32> {
    let [reason] = &recorded.assessment.reasons[..] else { return None };
    let status = reason.strip_prefix("status ")?.parse().ok()?;
    let is_http = recorded.trace.entry.protocol == model::trace::Protocol::Http;
    (is_http && recorded.faults.is_empty() && (400..500).contains(&status)).then_some(status)
}

/// A gRPC reply as JSON if there is a .proto for it; the beginning of a failing page without its markup.
pub fn body_excerpt(recorded: &Recorded) -> Option<String> {
    let text = match recorded.body.as_ref()? {
        Body::Message(json) => return Some(json.clone()),
        Body::Text(_) if recorded.assessment.failures == 0 => return None,
        Body::Text(text) if text.trim_start().starts_with('<') => without_markup(text),
        Body::Text(text) => text.clone(),
    };
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    (!text.is_empty()).then(|| text.chars().take(EXCERPT_CHARS).collect())
}

/// The body for programs, unless it is longer than 64 KiB.
pub fn whole_body(recorded: &Recorded) -> Option<&str> {
    match recorded.body.as_ref()? {
        Body::Message(json) => Some(json),
        Body::Text(text) => Some(text.as_str()).filter(|text| text.len() <= BODY_BYTES_MAX),
    }
}
