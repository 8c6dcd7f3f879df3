//! What a page may show of a request. Pages are shared, so everything that may be a secret is left out unless it is
//! listed here: values of headers, bodies, values in the query of a URL, and parts of its path that look random.

/// Headers whose values do not identify the sender.
const SHOWN_HEADERS: [&str; 8] = [
    "accept",
    "accept-encoding",
    "accept-language",
    "cache-control",
    "content-encoding",
    "content-length",
    "content-type",
    "user-agent",
];

/// Longer parts of paths may be tokens if they contain digits.
const SHORT: usize = 12;

/// Shown instead of a secret.
const LEFT_OUT: &str = "…";

/// A command line without secrets: `-H 'cookie: a=b'` becomes `-H 'cookie: …'`.
pub(crate) fn command(line: &str) -> String {
    let mut shown: Vec<String> = Vec::new();
    let mut before = "";
    for word in words(line) {
        let plain = unquoted(word);
        let value = match before {
            "-H" => header(&plain),
            "-d" if !plain.starts_with('@') => LEFT_OUT.to_owned(),
            "--before" => prepared(&plain),
            // a condition may repeat what the reply contains
            "--expect-body" => LEFT_OUT.to_owned(),
            "--expect-json" => plain.split_once('=').map_or(plain.clone(), |(path, _)| format!("{path}={LEFT_OUT}")),
            _ if plain.contains("://") => url(&plain),
            _ => plain.clone(),
        };
        shown.push(if value == plain { word.to_owned() } else { format!("'{}'", value.replace('\'', "'\\''")) });
        before = word;
    }
    shown.join(" ")
}

/// `METHOD URL` without secrets, such as the title of a run.
pub(crate) fn request(text: &str) -> String {
    text.split(' ')
        .map(|word| if word.contains("://") { url(word) } else { word.to_owned() })
        .collect::<Vec<_>>()
        .join(" ")
}

/// The reason of a verdict without values of the reply and of the expectation: `/user is "anna", not "bob"` becomes
/// `/user has another value`.
pub fn reason(text: &str) -> String {
    if text.starts_with("the body does not match /") {
        return "the body does not match its pattern".to_owned();
    }
    match text.split_once(" is ") {
        Some((path, values)) if path.starts_with('/') && values.contains(", not ") => {
            let what = if values.starts_with("missing, not ") { "is missing" } else { "has another value" };
            format!("{path} {what}")
        }
        _ => text.to_owned(),
    }
}

/// The conditions of a correct reply, without patterns and values of bodies: those are not shown from the first one on.
pub(crate) fn oracle(text: &str) -> String {
    let first_of_body = [text.find("body matches /"), text.find(", /").map(|at| at + 2)].into_iter().flatten().min();
    first_of_body.map_or(text.to_owned(), |at| format!("{}conditions on the body {LEFT_OUT}", &text[..at]))
}

/// `Name: value`.
fn header(text: &str) -> String {
    let name = text.split(':').next().unwrap_or_default().trim();
    if SHOWN_HEADERS.contains(&name.to_lowercase().as_str()) { text.to_owned() } else { format!("{name}: {LEFT_OUT}") }
}

/// `METHOD URL [BODY]`.
fn prepared(text: &str) -> String {
    let mut parts = text.trim().splitn(3, ' ');
    let (method, address) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let body = if parts.next().is_some() { format!(" {LEFT_OUT}") } else { String::new() };
    format!("{method} {}{body}", url(address))
}

fn url(text: &str) -> String {
    let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
    let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, query)| (rest, Some(query)));
    let mut parts = rest.split('/');
    let authority = parts.next().unwrap_or_default();
    // a password is not accepted in requests, but a page must not depend on that
    let host = authority.rsplit_once('@').map_or(authority.to_owned(), |(_, host)| format!("{LEFT_OUT}@{host}"));
    // the path of a gRPC call is the name of its method
    let is_left_out = |part: &str| scheme != "grpc" && may_be_token(part);
    let path: String = parts.map(|part| format!("/{}", if is_left_out(part) { LEFT_OUT } else { part })).collect();
    let query = query.map_or(String::new(), |query| format!("?{}", parameters(query)));
    let separator = if text.contains("://") { "://" } else { "" };
    format!("{scheme}{separator}{host}{path}{query}")
}

/// Keeps the names; values may be tokens, addresses or names of people.
fn parameters(query: &str) -> String {
    let shown = |parameter: &str| match parameter.split_once('=') {
        Some((name, _)) => format!("{name}={LEFT_OUT}"),
        None if may_be_token(parameter) => LEFT_OUT.to_owned(),
        None => parameter.to_owned(),
    };
    query.split('&').map(shown).collect::<Vec<_>>().join("&")
}

fn may_be_token(part: &str) -> bool {
    part.len() > SHORT && part.bytes().any(|byte| byte.is_ascii_digit())
}

/// The words of a command line; quoted parts belong to their word. Inside quotes, a quote is written `'\''`.
fn words(line: &str) -> Vec<&str> {
    let (mut words, mut begin, mut quoted, mut escaped) = (Vec::new(), 0, false, false);
    for (at, character) in line.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' if !quoted => escaped = true,
            '\'' => quoted = !quoted,
            ' ' if !quoted => {
                words.push(&line[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    words.push(&line[begin..]);
    words
}

fn unquoted(word: &str) -> String {
    let (mut plain, mut quoted, mut escaped) = (String::new(), false, false);
    for character in word.chars() {
        match character {
            _ if escaped => {
                escaped = false;
                plain.push(character);
            }
            '\\' if !quoted => escaped = true,
            '\'' => quoted = !quoted,
            _ => plain.push(character),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_headers_keep_their_values() {
        let line = r"faultloom record http://x/ -H 'Authorization: Bearer it'\''s' -H 'accept: text/html' -H 'cookie:a=b' -H 'x-session: 7' --fault 'a reset'";
        let shown = r"faultloom record http://x/ -H 'Authorization: …' -H 'accept: text/html' -H 'cookie: …' -H 'x-session: …' --fault 'a reset'";
        assert_eq!(command(line), shown);
    }

    #[test]
    fn bodies_and_values_in_urls_are_left_out() {
        let line = "faultloom record 'http://x/login?token=abc&debug' -d 'password=hunter' --before 'POST http://x/cart card=4711' \
            --expect-body hunter --expect-json '$.user=anna' -d @file --timeout-ms 5";
        let shown = "faultloom record 'http://x/login?token=…&debug' -d '…' --before 'POST http://x/cart …' \
            --expect-body '…' --expect-json '$.user=…' -d @file --timeout-ms 5";
        assert_eq!(command(line), shown);
        assert_eq!(request("GET http://x/reset/8f3a9c0d12e4567890/confirm?t=1"), "GET http://x/reset/…/confirm?t=…");
        assert_eq!(request("GET http://x/products/mug-01"), "GET http://x/products/mug-01");
        assert_eq!(
            request("POST grpc://a:hunter@x:1/shop.v1.CartService/Get"),
            "POST grpc://…@x:1/shop.v1.CartService/Get"
        );
    }

    #[test]
    fn values_of_replies_and_expectations_are_left_out() {
        assert_eq!(reason(r#"/user is "anna", not "bob""#), "/user has another value");
        assert_eq!(reason(r#"/user is missing, not "bob""#), "/user is missing");
        assert_eq!(reason("the body does not match /hunter/"), "the body does not match its pattern");
        for harmless in ["status 500", "took 90 ms, more than 50", "no reply: the connection ended"] {
            assert_eq!(reason(harmless), harmless);
        }
        let shown = "status below 500, conditions on the body …";
        assert_eq!(oracle("status below 500, body matches /hunter/, /user = \"anna\", at most 5 ms"), shown);
        assert_eq!(oracle("status below 500, /user = \"anna\""), shown);
        assert_eq!(oracle("status below 500, at most 5 ms"), "status below 500, at most 5 ms");
    }
}
