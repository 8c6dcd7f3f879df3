//! Which requests are served at all, and the headers of every reply.

use crate::answer::refused;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use std::net::SocketAddr;

/// The page loads files of this server only, and runs no other scripts.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; \
                      connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HEADERS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// Refuses requests that another page sent, and requests for another host name.
pub(crate) async fn own_requests_only(State(address): State<SocketAddr>, request: Request, next: Next) -> Response {
    let mut response = match violation(address, request.headers()) {
        Some(why) => refused(StatusCode::FORBIDDEN, why, "open the address that `faultloom ui` printed"),
        None => next.run(request).await,
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn violation(address: SocketAddr, headers: &HeaderMap) -> Option<&'static str> {
    let port = address.port();
    // of port 80, a browser sends no port
    let bare = |name: &str| if port == 80 { name.to_owned() } else { format!("{name}:{port}") };
    let own = [format!("{address}"), format!("localhost:{port}"), bare("127.0.0.1"), bare("localhost")];
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    if !text(header::HOST).is_some_and(|host| own.iter().any(|own| own == host)) {
        return Some("the request is for another host name");
    }
    if let Some(origin) = headers.get(header::ORIGIN) {
        let is_own = origin.to_str().is_ok_and(|origin| own.iter().any(|own| origin == format!("http://{own}")));
        if !is_own {
            return Some("another page sent the request");
        }
    }
    match text(HeaderName::from_static("sec-fetch-site")) {
        None | Some("same-origin" | "none") => None,
        Some(_) => Some("another page sent the request"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(headers: &[(&'static str, &'static str)]) -> Option<&'static str> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, HeaderValue::from_static(value));
        }
        violation("127.0.0.1:7070".parse().unwrap(), &map)
    }

    #[test]
    fn requests_of_the_own_page_are_served() {
        assert_eq!(check(&[("host", "127.0.0.1:7070")]), None);
        assert_eq!(check(&[("host", "localhost:7070"), ("origin", "http://localhost:7070")]), None);
        assert_eq!(check(&[("host", "127.0.0.1:7070"), ("sec-fetch-site", "same-origin")]), None);
    }

    #[test]
    fn requests_of_other_pages_and_for_other_names_are_refused() {
        for headers in [
            &[][..],
            &[("host", "evil.example:7070")],
            &[("host", "127.0.0.1:7071")],
            &[("host", "127.0.0.1")],
            &[("host", "127.0.0.1:7070"), ("origin", "http://evil.example")],
            &[("host", "127.0.0.1:7070"), ("origin", "http://127.0.0.1:8080")],
            &[("host", "127.0.0.1:7070"), ("origin", "null")],
            &[("host", "127.0.0.1:7070"), ("sec-fetch-site", "cross-site")],
            &[("host", "127.0.0.1:7070"), ("sec-fetch-site", "same-site")],
        ] {
            assert!(check(headers).is_some(), "{headers:?}");
        }
    }
}
