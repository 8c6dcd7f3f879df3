//! Which calls a selector matches, and the names of HTTP calls. Specified in the format, "Deciding about a send".

use model::Selector;
use std::net::IpAddr;

/// `name`: the gRPC method, or `METHOD /raw/path`.
pub fn matches(selector: &Selector, caller: &str, peer: &str, name: &str) -> bool {
    (selector.caller.is_empty() || selector.caller == caller)
        && (selector.callee.is_empty() || callee_matches(&selector.callee, peer))
        && (selector.call.is_empty() || call_matches(&selector.call, name))
}

fn host_of(peer: &str) -> &str {
    if let Some(rest) = peer.strip_prefix('[') {
        return rest.split(']').next().unwrap_or(rest);
    }
    match peer.rsplit_once(':') {
        Some((host, _)) if !host.contains(':') => host,
        _ => peer,
    }
}

pub fn callee_matches(callee: &str, peer: &str) -> bool {
    let host = host_of(peer);
    callee == peer || callee == host || (host.parse::<IpAddr>().is_err() && host.split('.').next() == Some(callee))
}

pub fn call_matches(call: &str, name: &str) -> bool {
    if call == name {
        return true;
    }
    if !call.contains(['/', ' ']) {
        return name.rsplit_once('/').is_some_and(|(_, last)| last == call);
    }
    let (pattern, parts): (Vec<&str>, Vec<&str>) = (call.split('/').collect(), name.split('/').collect());
    pattern.len() == parts.len()
        && pattern
            .iter()
            .zip(parts)
            .all(|(p, part)| *p == part || *p == "*" || (p.starts_with('{') && p.ends_with('}')))
}

const NAME_BYTES_MAX: usize = 200;

/// `METHOD /raw/path` without the query: the name that selectors are matched with.
pub fn raw_http_name(method: &str, target: &str) -> String {
    let path = target.split(['?', '#']).next().unwrap_or("");
    format!("{method} {}", if path.is_empty() { "/" } else { path })
}

/// The recorded name: variable parts of the path become `{id}`.
pub fn normalize_http_name(raw: &str) -> String {
    let mut name = raw
        .split('/')
        .enumerate()
        .map(|(i, part)| if i > 0 && is_variable(part) { "{id}" } else { part })
        .collect::<Vec<_>>()
        .join("/");
    if name.len() > NAME_BYTES_MAX {
        let cut = (0..=NAME_BYTES_MAX).rev().find(|i| name.is_char_boundary(*i)).unwrap_or(0);
        name.truncate(cut);
    }
    name
}

fn is_variable(part: &str) -> bool {
    let bytes = part.as_bytes();
    let has_digit = bytes.iter().any(u8::is_ascii_digit);
    has_digit
        && (bytes.iter().all(u8::is_ascii_digit)
            || is_uuid(bytes)
            || (bytes.len() >= 8 && bytes.iter().all(u8::is_ascii_hexdigit))
            || bytes.len() >= 20)
        || is_uuid(bytes)
}

fn is_uuid(bytes: &[u8]) -> bool {
    bytes.len() == 36
        && bytes.iter().enumerate().all(
            |(i, b)| {
                if matches!(i, 8 | 13 | 18 | 23) { *b == b'-' } else { b.is_ascii_hexdigit() }
            },
        )
}
