//! What a page may show of a request. Pages are shared, so everything that may be a secret is left out unless it is
//! listed here: values of headers, bodies, values in the query of a URL. Paths are redacted before, by `model::redact`,
//! unless the user wants them complete.

use model::redact::LEFT_OUT;

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

/// A command line without secrets: `-H 'cookie: a=b'` becomes `-H 'cookie: …'`.
pub fn command(line: &str) -> String {
    let mut shown: Vec<String> = Vec::new();
    let mut before = "";
    for word in words(line) {
        let plain = unquoted(word);
        let value = match before {
            "-H" => header(&plain),
            "-d" | "--data-binary" if !plain.starts_with('@') => LEFT_OUT.to_owned(),
            "-F" => part(&plain),
            "--before" | "--after" | "--login" => prepared(&plain),
            // a condition may repeat what the reply contains
            "--expect-body" | "--expect-sql" | "--check" => LEFT_OUT.to_owned(),
            "--database" if !plain.contains("://") => LEFT_OUT.to_owned(),
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
/// `/user has another value`. Of reasons that are not listed here, nothing is shown.
pub fn reason(text: &str) -> String {
    if text.starts_with("the body does not match /") {
        return "the body does not match its pattern".to_owned();
    }
    if let Some((state, why)) = text.strip_prefix("state at '").and_then(|text| text.split_once("': ")) {
        return format!("state at '{}': {}", model::redact::text(state), reason(why));
    }
    if text.starts_with("query '") {
        let what = if text.contains("' returned ") { "returned another value" } else { "failed" };
        return format!("a query of the database {what}");
    }
    if text.starts_with("program '") {
        return "a program of the user did not accept it; `faultloom show` prints its reason".to_owned();
    }
    match text.split_once(" is ") {
        Some((path, values)) if path.starts_with('/') && values.contains(", not ") => {
            let what = if values.starts_with("missing, not ") { "is missing" } else { "has another value" };
            format!("{path} {what}")
        }
        _ if is_harmless(text) => model::redact::text(text),
        _ => OTHER_REASON.to_owned(),
    }
}

const OTHER_REASON: &str = "another reason, which `faultloom show` prints";

/// Made of our own words, numbers, and names of services and calls.
fn is_harmless(text: &str) -> bool {
    const BEGINNINGS: [&str; 20] = [
        "call rule '",
        "status ",
        "took ",
        "no reply",
        "no reason given",
        "redirect",
        "the body is not JSON",
        "the target cannot be reached",
        "the reply's history cannot be read",
        "the reply carries no history",
        "the history is truncated",
        "a part of the history",
        "faults are switched off",
        "no fault took effect",
        "the services ",
        "the request did not fail again",
        "sent again, the request failed in another way",
        "it rests only on ",
        "there are more than ",
        "the cause of these cases",
    ];
    let ends = ["crashed after the fault, every time it was injected", "never took effect"];
    BEGINNINGS.iter().any(|beginning| text.starts_with(beginning)) || ends.iter().any(|end| text.ends_with(end))
}

/// The conditions of a correct reply, without patterns and values of bodies: those are not shown from the first one on.
pub(crate) fn oracle(text: &str) -> String {
    let of_body = [text.find("body matches /"), text.find(", /").map(|at| at + 2)].into_iter().flatten().min();
    let others = [", after '", ", '", ", program '"];
    let others = others.into_iter().filter_map(|begin| text.find(begin)).min().map(|at| at + 2);
    match (of_body, others) {
        (None, None) => text.to_owned(),
        (Some(at), None) => format!("{}conditions on the body {LEFT_OUT}", &text[..at]),
        (None, Some(at)) => format!("{}conditions on the state {LEFT_OUT}", &text[..at]),
        (Some(body), Some(other)) => {
            format!("{}conditions on the body and the state {LEFT_OUT}", &text[..body.min(other)])
        }
    }
}

/// `Name: value`.
fn header(text: &str) -> String {
    let name = text.split(':').next().unwrap_or_default().trim();
    if SHOWN_HEADERS.contains(&name.to_lowercase().as_str()) { text.to_owned() } else { format!("{name}: {LEFT_OUT}") }
}

/// `NAME=VALUE`, or `NAME=@FILE`.
fn part(text: &str) -> String {
    match text.split_once('=') {
        Some((_, value)) if value.starts_with(['@', '<']) => text.to_owned(),
        Some((name, _)) => format!("{name}={LEFT_OUT}"),
        None => LEFT_OUT.to_owned(),
    }
}

/// `METHOD URL [BODY]`; a body `@FILE` names a file.
fn prepared(text: &str) -> String {
    let mut parts = text.trim().splitn(3, ' ');
    let (method, address) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let body = match parts.next() {
        None => String::new(),
        Some(file) if file.starts_with('@') => format!(" {file}"),
        Some(_) => format!(" {LEFT_OUT}"),
    };
    format!("{method} {}{body}", url(address))
}

fn url(text: &str) -> String {
    let (address, query) = text.split_once('?').map_or((text, None), |(address, query)| (address, Some(query)));
    // a password is not accepted in requests, but a page must not depend on that
    let begin = address.find("://").map_or(0, |at| at + 3);
    let end = address[begin..].find('/').map_or(address.len(), |at| begin + at);
    let host = model::redact::authority(&address[begin..end]);
    let query = query.map_or(String::new(), model::redact::parameters);
    format!("{}{host}{}{query}", &address[..begin], &address[end..])
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
        assert_eq!(request("GET http://x/reset/confirm?t=1&8f3a9c0d"), "GET http://x/reset/confirm?t=…&…");
        assert_eq!(
            request("POST grpc://a:hunter@x:1/shop.v1.CartService/Get"),
            "POST grpc://…@x:1/shop.v1.CartService/Get"
        );
    }

    #[test]
    fn logins_and_uploads_are_left_out_and_files_are_named() {
        let line = "faultloom record https://x/ --login 'POST /login user=anna&password=hunter' -F token=hunter -F a=@photo.jpg \
            --data-binary hunter --cacert ca.pem";
        let shown = "faultloom record https://x/ --login 'POST /login …' -F 'token=…' -F a=@photo.jpg --data-binary '…' --cacert ca.pem";
        assert_eq!(command(line), shown);
        assert_eq!(command("record --login 'POST /login @login.txt'"), "record --login 'POST /login @login.txt'");
    }

    #[test]
    fn values_of_replies_and_expectations_are_left_out() {
        assert_eq!(reason(r#"/user is "anna", not "bob""#), "/user has another value");
        assert_eq!(reason(r#"/user is missing, not "bob""#), "/user is missing");
        assert_eq!(reason("the body does not match /hunter/"), "the body does not match its pattern");
        for harmless in ["status 500", "took 90 ms, more than 50", "no reply: the connection ended"] {
            assert_eq!(reason(harmless), harmless);
        }
        assert_eq!(reason("anna's card 4711 was refused"), OTHER_REASON);
        let shown = "status below 500, conditions on the body …";
        assert_eq!(oracle("status below 500, body matches /hunter/, /user = \"anna\", at most 5 ms"), shown);
        assert_eq!(oracle("status below 500, /user = \"anna\""), shown);
        assert_eq!(oracle("status below 500, at most 5 ms"), "status below 500, at most 5 ms");
    }

    #[test]
    fn rules_about_calls_are_shown_and_values_of_the_state_are_not() {
        let rule = "call rule 'at most 1 payment/Charge': 2 such calls";
        assert_eq!(reason(rule), rule);
        assert_eq!(
            reason(r#"state at 'GET http://x/cart?user=anna': /owner is "anna", not "bob""#),
            "state at 'GET http://x/cart?user=…': /owner has another value"
        );
        for (text, shown) in [
            ("query 'SELECT card FROM t' returned 4711, not 1", "a query of the database returned another value"),
            ("query 'SELECT card FROM t' failed: no such table", "a query of the database failed"),
        ] {
            assert_eq!(reason(text), shown);
        }
        assert!(!reason("program 'check --key hunter': anna's card was refused").contains("anna"));
        let line = "faultloom record http://x/ --after 'GET http://x/cart?user=anna' --expect-json '$.owner=anna' \
            --database shop.db --expect-sql 'SELECT card FROM t => 4711' --check 'check --key hunter' \
            --expect-call 'at most 1 payment/Charge'";
        let shown = "faultloom record http://x/ --after 'GET http://x/cart?user=…' --expect-json '$.owner=…' \
            --database '…' --expect-sql '…' --check '…' --expect-call 'at most 1 payment/Charge'";
        assert_eq!(command(line), shown);
        let state =
            "status below 500, at most 1 payment/Charge, after 'GET /cart' /owner = \"anna\", 'SELECT' returns 1";
        assert_eq!(oracle(state), "status below 500, at most 1 payment/Charge, conditions on the state …");
        let body = "status below 500, /user = \"anna\", program 'check'";
        assert_eq!(oracle(body), "status below 500, conditions on the body and the state …");
    }
}
