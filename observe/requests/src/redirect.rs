//! Redirects: where a reply leads, and the request that follows it.
//!
//! A redirect to another origin (scheme, host or port) gets no envelope, no cookies, no client certificate and none of
//! the user's headers except those that describe content. A request with a body does not go there at all.

use crate::request::{RequestSpec, Transport};

/// More are not followed.
pub(crate) const REDIRECTS_MAX: usize = 10;

/// Headers that are sent to another origin: they identify nobody.
const CONTENT_HEADERS: [&str; 4] = ["accept", "accept-encoding", "accept-language", "user-agent"];

/// A redirect that was followed.
#[derive(Clone, Debug, PartialEq)]
pub struct Redirect {
    pub status: u32,
    /// `POST http://shop:80/checkout`.
    pub from: String,
    /// Calls that the redirected request made.
    pub calls: usize,
    pub to: String,
}

/// The absolute URL of a `location`, if the status is one of a redirect.
pub(crate) fn target(spec: &RequestSpec, status: u16, headers: &http::HeaderMap) -> Option<String> {
    if !matches!(status, 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let location = headers.get("location")?.to_str().ok()?.trim();
    Some(absolute(spec, location))
}

fn absolute(spec: &RequestSpec, location: &str) -> String {
    let location = location.split('#').next().unwrap_or_default();
    if location.split_once(':').is_some_and(|(scheme, _)| is_scheme(scheme)) {
        return location.to_owned();
    }
    if let Some(rest) = location.strip_prefix("//") {
        let scheme = spec.origin().split("://").next().unwrap_or("http").to_owned();
        return format!("{scheme}://{rest}");
    }
    let path = spec.path.split('?').next().unwrap_or("/");
    let joined = match location {
        "" => spec.path.clone(),
        _ if location.starts_with('/') => location.to_owned(),
        _ if location.starts_with('?') => format!("{path}{location}"),
        _ => format!("{}/{location}", path.rsplit_once('/').map_or("", |(folder, _)| folder)),
    };
    format!("{}{}", spec.origin(), without_dots(&joined))
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
}

/// `/a/./b/../c` → `/a/c`.
fn without_dots(path: &str) -> String {
    let (path, query) = path.split_at(path.find('?').unwrap_or(path.len()));
    let mut parts: Vec<&str> = Vec::new();
    let mut is_folder = false;
    for part in path.split('/').skip(1) {
        is_folder = matches!(part, "." | ".." | "");
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    if is_folder && parts.last() != Some(&"") {
        parts.push("");
    }
    format!("/{}{query}", parts.join("/"))
}

/// The request that follows `current`, which had this status. `first` is the user's own. The error is the reason why it
/// is not followed.
pub(crate) fn following(
    first: &RequestSpec,
    current: &RequestSpec,
    status: u32,
    to: &str,
) -> Result<RequestSpec, String> {
    let keeps_method = matches!(status, 307 | 308) || current.method == "HEAD";
    let method = if keeps_method || (current.method == "GET") { current.method.as_str() } else { "GET" };
    let refused = |why: &str| format!("redirect to {to} not followed: {why}");
    let mut next = RequestSpec::parse(to, method)
        .map_err(|failure| refused(failure.why.as_deref().unwrap_or("it is not a URL")))?;
    if next.transport != Transport::Http {
        return Err(refused("it is not http:// or https://"));
    }
    let keeps_body = keeps_method && !current.body.is_empty();
    next.timeout_ms = first.timeout_ms;
    if next.tls.is_some() {
        next.tls = first.tls.clone().or(next.tls);
    }
    if next.origin() == first.origin() {
        next.headers.clone_from(&first.headers);
        next.bridge = first.bridge;
        next.cookies.clone_from(&first.cookies);
        if keeps_body {
            next.body.clone_from(&current.body);
        } else {
            next.headers.retain(|(name, _)| name != "content-type");
        }
        return Ok(next);
    }
    if keeps_body {
        return Err(refused("the body would be sent to another origin"));
    }
    if let Some(tls) = &mut next.tls {
        (tls.cert, tls.key) = (None, None);
    }
    let is_harmless = |(name, _): &&(String, String)| CONTENT_HEADERS.contains(&name.as_str());
    next.headers = first.headers.iter().filter(is_harmless).cloned().collect();
    Ok(next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tls::TlsSettings;

    fn spec(url: &str, method: &str) -> RequestSpec {
        RequestSpec::parse(url, method).unwrap()
    }

    #[test]
    fn locations_are_resolved_against_the_request() {
        let from = spec("https://shop/a/b?x=1", "GET");
        for (location, to) in [
            ("/c", "https://shop:443/c"),
            ("c?y", "https://shop:443/a/c?y"),
            ("../c", "https://shop:443/c"),
            ("./", "https://shop:443/a/"),
            ("?y=2", "https://shop:443/a/b?y=2"),
            ("", "https://shop:443/a/b?x=1"),
            ("//other/x#part", "https://other/x"),
            ("http://other:1/x", "http://other:1/x"),
            ("/a:b", "https://shop:443/a:b"),
        ] {
            assert_eq!(absolute(&from, location), to, "{location}");
        }
    }

    #[test]
    fn credentials_stay_at_their_origin() {
        let mut first = spec("https://shop/login", "POST");
        first.tls = Some(TlsSettings {
            cacert: Some("ca.pem".into()),
            cert: Some("me.pem".into()),
            key: Some("me.key".into()),
            insecure: false,
        });
        first.bridge = true;
        first.body = b"a=1".to_vec();
        for header in ["authorization: x", "cookie: a=b", "x-api-key: k", "accept: text/html", "content-type: a/b"] {
            first.add_header(header).unwrap();
        }
        let same = following(&first, &first, 303, "https://shop:443/home").unwrap();
        assert_eq!((same.method.as_str(), same.headers.len(), same.body.len()), ("GET", 4, 0));
        assert!(same.bridge && same.tls == first.tls);
        for other in ["https://other/", "http://shop:443/", "https://shop:444/"] {
            let next = following(&first, &first, 302, other).unwrap();
            assert_eq!(next.headers, [("accept".to_owned(), "text/html".to_owned())], "{other}");
            assert!(!next.bridge && next.tls.is_none_or(|tls| tls.cert.is_none() && tls.key.is_none()));
        }
        assert!(following(&first, &first, 307, "https://other/").unwrap_err().contains("another origin"));
        // back at its own origin, the request has its headers again
        let away = following(&first, &first, 302, "https://other/").unwrap();
        assert_eq!(following(&first, &away, 302, "https://shop:443/back").unwrap().headers.len(), 4);
    }

    #[test]
    fn methods_change_as_in_browsers() {
        let mut post = spec("http://shop/a", "POST");
        post.body = b"x".to_vec();
        let next = |status| following(&post, &post, status, "http://shop:80/b").map(|n| (n.method, n.body.len()));
        assert_eq!(next(301).unwrap(), ("GET".to_owned(), 0));
        assert_eq!(next(307).unwrap(), ("POST".to_owned(), 1));
        assert!(following(&post, &post, 302, "ftp://shop/").unwrap_err().contains("not followed"));
    }
}
