//! Names of calls without what may be a secret, for pages and exports that are shared.
//!
//! A part of an HTTP path is shown only if it is on the allow-list: a parameter of a template (`{id}`), a version
//! (`v1`), or a short lower-case word. Everything else becomes `…`. A recorded route looks like a raw path if the
//! framework has no templates, so both are treated alike. Names of gRPC methods are code and stay whole.

use crate::sweep::Sweep;
use crate::trace::{Call, Protocol, Trace};
use crate::{Fault, Selector};

/// Shown instead of a secret.
pub const LEFT_OUT: &str = "…";

/// Longer words may be tokens.
const WORD_MAX: usize = 24;

/// Ends a name in a sentence or in a command line.
const DELIMITERS: [char; 4] = [' ', '\'', '"', '\n'];
/// May follow a name in a sentence; inside, it is a part of a path.
const PUNCTUATION: [char; 4] = [',', ';', ':', ')'];
/// A quote inside a quoted word of a command line, which does not end the word.
const ESCAPED_QUOTE: &str = r"'\''";
const ESCAPED_QUOTE_MARK: &str = "\u{1}";

/// A path without the parts that are not on the allow-list, and a query without its values. The suffixes `#3` and `×3`
/// of a name stay.
pub fn path(text: &str) -> String {
    let (text, suffix) = counted(text);
    let (path, query) = text.split_once('?').map_or((text, None), |(path, query)| (path, Some(query)));
    let shown: Vec<&str> = path.split('/').map(|part| if is_allowed(part) { part } else { LEFT_OUT }).collect();
    format!("{}{}{suffix}", shown.join("/"), query.map_or(String::new(), parameters))
}

/// A name and its suffix such as `#3` or `×10`.
fn counted(text: &str) -> (&str, &str) {
    let name = text.trim_end_matches(|c: char| c.is_ascii_digit());
    let at = name.strip_suffix(['#', '×']).filter(|_| name.len() < text.len()).map_or(text.len(), str::len);
    text.split_at(at)
}

/// `?name=…` for a query with values.
pub fn parameters(query: &str) -> String {
    let shown = |parameter: &str| match parameter.split_once('=') {
        Some((name, _)) => format!("{}={LEFT_OUT}", if is_word(name) { name } else { LEFT_OUT }),
        None if is_word(parameter) => parameter.to_owned(),
        None => LEFT_OUT.to_owned(),
    };
    format!("?{}", query.split('&').map(shown).collect::<Vec<_>>().join("&"))
}

fn is_allowed(part: &str) -> bool {
    part.is_empty() || part == "*" || part == LEFT_OUT || is_word(part) || is_version(part) || is_parameter(part)
}

fn is_word(part: &str) -> bool {
    part.len() <= WORD_MAX && part.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'-' | b'_' | b'.'))
}

fn is_version(part: &str) -> bool {
    part.strip_prefix('v').is_some_and(|n| (1..=3).contains(&n.len()) && n.bytes().all(|b| b.is_ascii_digit()))
}

fn is_parameter(part: &str) -> bool {
    let name = part.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    let name = name.map(|name| name.trim_start_matches('*').trim_end_matches("..."));
    // the name is from the source of the program, not from a request
    let is_name = |name: &str| {
        name.starts_with(|first: char| first.is_ascii_lowercase())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
    };
    name.is_some_and(|name| name.len() <= WORD_MAX && is_name(name))
}

/// The host and port of a URL without a user and a password.
pub fn authority(text: &str) -> String {
    text.rsplit_once('@').map_or(text.to_owned(), |(_, host)| format!("{LEFT_OUT}@{host}"))
}

/// A URL with its host; a password is left out. The path of a gRPC URL is the name of a method.
pub fn url(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return path(text) };
    let at = rest.find(['/', '?']).unwrap_or(rest.len());
    let (host, rest) = rest.split_at(at);
    let host = authority(host);
    let rest = if (scheme.ends_with("grpc") || scheme.ends_with("grpcs")) && is_grpc(rest) {
        rest.to_owned()
    } else {
        path(rest)
    };
    format!("{scheme}://{host}{rest}")
}

/// `/shop.v1.CartService/Get`: a package or a capital before the method, unlike most paths.
fn is_grpc(name: &str) -> bool {
    let is_code = |part: &str| part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.' || b == b'_');
    let Some((service, method)) = name.strip_prefix('/').and_then(|name| name.split_once('/')) else { return false };
    is_code(service) && is_code(method) && service.rsplit('.').next().is_some_and(|s| s.starts_with(char::is_uppercase))
}

/// The name of an HTTP call: `GET /reset/{id}`.
fn http_name(name: &str) -> String {
    match name.split_once(' ') {
        Some((method, rest)) if is_method(method) && !rest.starts_with(is_method_start) => {
            // a decoded path may contain spaces
            format!("{method} {}", path(rest))
        }
        _ => name
            .split(' ')
            .map(|word| if is_method(word) { word.to_owned() } else { url(word) })
            .collect::<Vec<_>>()
            .join(" "),
    }
}

fn is_method(word: &str) -> bool {
    (3..=9).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_uppercase())
}

fn is_method_start(c: char) -> bool {
    c.is_ascii_uppercase()
}

fn name(protocol: Protocol, name: &str) -> String {
    match protocol {
        Protocol::Http => http_name(name),
        Protocol::Grpc => name.to_owned(),
    }
}

/// The name of a call in a fault: a gRPC method, also without its service, or an HTTP call.
fn selected(call: &str) -> String {
    if is_grpc(call) || !call.contains(['/', ' ']) { call.to_owned() } else { http_name(call) }
}

pub fn fault(fault: &Fault) -> Fault {
    let selector = |s: &Selector| Selector { call: selected(&s.call), ..s.clone() };
    let mut out = fault.clone();
    out.selector = selector(&fault.selector);
    for after in &mut out.after {
        after.selector = selector(&after.selector);
    }
    out
}

pub fn trace(trace: &Trace) -> Trace {
    let mut out = trace.clone();
    // a loop, because an imported trace may be thousands of calls deep
    let mut open: Vec<&mut Call> = vec![&mut out.entry];
    while let Some(call) = open.pop() {
        call.name = name(call.protocol, &call.name);
        if let Some(scope) = call.scope.as_deref_mut() {
            scope.name = name(call.protocol, &scope.name);
            open.extend(scope.calls.iter_mut());
        }
    }
    out
}

/// Sentences and command lines: URLs, and the path after an HTTP method.
pub fn text(text: &str) -> String {
    let text = text.replace(ESCAPED_QUOTE, ESCAPED_QUOTE_MARK);
    let mut out = String::with_capacity(text.len());
    let mut after_method = false;
    for piece in text.split_inclusive(DELIMITERS) {
        let word = piece.trim_end_matches(DELIMITERS);
        let name = word.trim_end_matches(PUNCTUATION);
        if name.contains("://") {
            out.push_str(&url(name));
        } else if after_method && name.starts_with('/') {
            out.push_str(&path(name));
        } else {
            out.push_str(name);
        }
        out.push_str(&piece[name.len()..]);
        // `GET`, and `catalogue/GET` or `web->GET` in faults and stories
        let last = word.rsplit(['/', '>']).next().unwrap_or_default();
        after_method = piece.ends_with(' ') && is_method(last);
    }
    out.replace(ESCAPED_QUOTE_MARK, ESCAPED_QUOTE)
}

/// Everything of a sweep that names calls. Headers and bodies in its commands are not changed.
pub fn sweep(sweep: &Sweep) -> Sweep {
    let mut names: Vec<(String, String)> = Vec::new();
    let traces = std::iter::once(&sweep.good).chain(sweep.bugs.iter().map(|bug| &bug.trace));
    for call in traces.flat_map(|trace| std::iter::once(&trace.entry).chain(trace.walk())) {
        let own = call.scope.as_deref().map_or("", |scope| &scope.name);
        for raw in [call.name.as_str(), own] {
            let shown = name(call.protocol, raw);
            if shown != raw {
                names.push((raw.to_owned(), shown));
            }
        }
    }
    // a name may be the beginning of another
    names.sort_by(|a, b| b.0.len().cmp(&a.0.len()).then_with(|| a.cmp(b)));
    names.dedup();
    let words = |line: &str| text(&names.iter().fold(line.to_owned(), |line, (raw, shown)| line.replace(raw, shown)));
    let mut out = sweep.clone();
    out.request = words(&sweep.request);
    out.good = trace(&sweep.good);
    for site in out.spaces.iter_mut().flat_map(|space| &mut space.sites) {
        site.label = words(&site.label);
        site.fault = fault(&site.fault);
    }
    for bug in &mut out.bugs {
        bug.title = words(&bug.title);
        bug.story.iter_mut().for_each(|sentence| *sentence = words(sentence));
        bug.faults.iter_mut().for_each(|planned| *planned = fault(planned));
        bug.failed.call = words(&bug.failed.call);
        bug.changed.iter_mut().for_each(|call| call.call = words(&call.call));
        if let Some(log) = &mut bug.log {
            // a log may contain anything
            log.lines.clear();
            log.path = None;
        }
        bug.again = words(&bug.again);
        bug.violation = words(&bug.violation);
        bug.trace = trace(&bug.trace);
    }
    for one in &mut out.unexplained {
        one.reason = words(&one.reason);
        one.faults.iter_mut().for_each(|planned| *planned = fault(planned));
        one.again = words(&one.again);
    }
    out
}

/// A program's file name and options; arguments and values of options are left out.
pub fn program(command: &[String]) -> Vec<String> {
    let mut words = command.iter();
    let program = words.next().map(|path| path.rsplit('/').next().unwrap_or_default().to_owned());
    program.into_iter().chain(words.map(|word| argument(word))).collect()
}

fn argument(word: &str) -> String {
    let (option, value) = word.split_once('=').map_or((word, None), |(option, value)| (option, Some(value)));
    let is_long = option.strip_prefix("--").is_some_and(is_word);
    // `-pSECRET` holds a value
    let is_short =
        option.strip_prefix('-').is_some_and(|o| o.len() == 1 && o.bytes().all(|b| b.is_ascii_alphanumeric()));
    match (is_long || is_short, value) {
        (true, None) => option.to_owned(),
        (true, Some(_)) => format!("{option}={LEFT_OUT}"),
        (false, _) => LEFT_OUT.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_parts_of_paths_are_shown() {
        for (raw, shown) in [
            ("/api/v1/items/{id}", "/api/v1/items/{id}"),
            ("/users/{userId}/{card 4711}", "/users/{userId}/…"),
            ("/users/{user_id}/{*path}", "/users/{user_id}/{*path}"),
            ("/static/logo.png", "/static/logo.png"),
            ("/reset/SECRETlettersonly/x", "/reset/…/x"),
            ("/user/anna@secret.example", "/user/…"),
            ("/products/mug-01", "/products/…"),
            ("/reset/abcdefghijklmnopqrstuvwxyz", "/reset/…"),
            ("/a?token=abc&debug&X9", "/a?token=…&debug&…"),
            ("/v1234/{Secret}", "/…/…"),
            ("/reset/SECRET#3", "/reset/…#3"),
            ("/items×10", "/items×10"),
            ("/", "/"),
        ] {
            assert_eq!(path(raw), shown);
            assert_eq!(path(shown), shown, "a second time");
        }
        assert_eq!(url("http://a:hunter@x:1/reset/SECRET"), "http://…@x:1/reset/…");
        assert_eq!(url("grpc://x:1/shop.v1.CartService/GetCart"), "grpc://x:1/shop.v1.CartService/GetCart");
        assert_eq!(url("grpcs://x:1/shop.v1.CartService/GetCart"), "grpcs://x:1/shop.v1.CartService/GetCart");
        assert_eq!(url("https://a:hunter@x/reset/SECRET?t=1"), "https://…@x/reset/…?t=…");
        assert_eq!(url("http://x?token=a"), "http://x?token=…");
    }

    #[test]
    fn sentences_and_commands_keep_everything_else() {
        for (raw, shown) in [
            (
                "web/GET /r/SECRET was unavailable; a continued with b/GET /c.",
                "web/GET /r/… was unavailable; a continued with b/GET /c.",
            ),
            ("currency/Convert#3 status 13", "currency/Convert#3 status 13"),
            (
                "--fault 'stock/GET /r/SECRET#2 reset after a/GET /S×1'",
                "--fault 'stock/GET /r/…#2 reset after a/GET /…×1'",
            ),
            ("cart//shop.Cart/GetCart hang", "cart//shop.Cart/GetCart hang"),
            ("http://x/a,SECRET;b(SECRET), then", "http://x/…), then"),
            (r"'http://x/a'\''SECRET' and", "'http://x/…' and"),
            ("record 'http://x/r/SECRET' --trust /home/Me/t", "record 'http://x/r/…' --trust /home/Me/t"),
        ] {
            assert_eq!(text(raw), shown);
        }
        let planned: Fault = "stock/GET /r/SECRET#2 reset after currency/GetCurrencies×1, a/GET /S×1".parse().unwrap();
        assert_eq!(fault(&planned).to_string(), "stock/GET /r/…#2 reset after currency/GetCurrencies×1, a/GET /…×1");
    }

    #[test]
    fn arguments_of_programs_are_left_out_and_options_stay() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let shown = program(&words("/usr/bin/gzip -c --decompress -9 --key=abc -pSECRET SECRETarg file"));
        assert_eq!(shown.join(" "), "gzip -c --decompress -9 --key=… … … …");
        assert!(program(&[]).is_empty());
    }
}
