//! The request to send: HTTP, or a unary gRPC call.

use crate::cookies::Cookies;
use crate::login::Login;
use model::{Failure, is_deceptive};
use serde::{Deserialize, Serialize};
use tls::TlsSettings;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    Http,
    Grpc,
}

/// A request that can be sent repeatedly. For gRPC, `path` is the full method and `body` the serialized message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RequestSpec {
    pub transport: Transport,
    pub method: String,
    pub authority: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub timeout_ms: u64,
    /// For `https` and `grpcs`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsSettings>,
    /// Whether the envelope is also sent in `traceparent` and `baggage`.
    #[serde(default)]
    pub bridge: bool,
    /// Whether redirects are followed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub follow: bool,
    /// Sent once, before the first request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login: Option<Box<Login>>,
    /// What the login set. Never stored.
    #[serde(skip)]
    pub(crate) cookies: Option<Cookies>,
    /// Requests sent without an envelope before each repetition, in this order, to prepare its state.
    #[serde(default)]
    pub before: Vec<RequestSpec>,
    /// Requests sent without an envelope after each repetition, in this order, to query its state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<RequestSpec>,
}

impl RequestSpec {
    /// The default timeout for a reply.
    pub const TIMEOUT_MS: u64 = 10_000;

    /// `http://host[:port]/path`, or `grpc://host:port/package.Service/Method`; `https` and `grpcs` with TLS.
    pub fn parse(url: &str, method: &str) -> Result<RequestSpec, Failure> {
        let refuse = |why: &str| {
            Failure::request(format!("'{url}' cannot be requested"))
                .why(why)
                .next("such as http://127.0.0.1:8080/ or grpc://127.0.0.1:7001/shop.Currency/Convert")
        };
        let (scheme, rest) =
            url.split_once("://").ok_or_else(|| refuse("a URL begins with http://, https://, grpc:// or grpcs://"))?;
        if let Some(c) = invalid_character(url) {
            return Err(refuse(&format!("a URL must not contain {c:?}; write it as {}", percent_encoded(c))));
        }
        let (transport, is_tls) = match scheme.to_ascii_lowercase().as_str() {
            "http" => (Transport::Http, false),
            "https" => (Transport::Http, true),
            "grpc" => (Transport::Grpc, false),
            "grpcs" => (Transport::Grpc, true),
            _ => return Err(refuse("only http://, https://, grpc:// and grpcs:// are supported")),
        };
        let (authority, path) = match rest.find(['/', '?', '#']) {
            Some(at) => (&rest[..at], &rest[at..]),
            None => (rest, ""),
        };
        if authority.contains('@') {
            return Err(refuse("a user and a password before the host are not supported; use -H 'authorization: …'"));
        }
        let authority = with_port(authority, if is_tls { 443 } else { 80 }).map_err(|why| refuse(&why))?;
        let path = path.split('#').next().unwrap_or("");
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        if transport == Transport::Grpc && path.matches('/').count() != 2 {
            return Err(refuse("a gRPC path is /package.Service/Method"));
        }
        if !is_token(method) {
            return Err(Failure::request(format!("{method:?} is not an HTTP method")).next("such as -X GET or -X POST"));
        }
        let method = if transport == Transport::Grpc { "POST".to_owned() } else { method.to_uppercase() };
        Ok(RequestSpec {
            transport,
            method,
            authority,
            path,
            headers: Vec::new(),
            body: Vec::new(),
            timeout_ms: RequestSpec::TIMEOUT_MS,
            tls: is_tls.then(TlsSettings::default),
            bridge: false,
            follow: false,
            login: None,
            cookies: None,
            before: Vec::new(),
            after: Vec::new(),
        })
    }

    /// Adds a header that was given as `Name: value`.
    pub fn add_header(&mut self, header: &str) -> Result<(), Failure> {
        let refuse = |why: String| {
            Failure::request(format!("{header:?} is not 'Name: value'")).why(why).next("such as -H 'accept: text/html'")
        };
        let (name, value) = header.split_once(':').ok_or_else(|| refuse("it has no colon".to_owned()))?;
        let (name, value) = (name.trim(), value.trim());
        if !is_token(name) {
            return Err(refuse(format!("{name:?} is not a valid header name")));
        }
        if let Some(c) = value.chars().find(|c| c.is_control() && *c != '\t') {
            return Err(refuse(format!("a value must not contain {c:?}")));
        }
        self.headers.push((name.to_lowercase(), value.to_owned()));
        Ok(())
    }

    /// The name of the entry call: `GET /`, or the gRPC method.
    pub fn name(&self) -> String {
        match self.transport {
            Transport::Http => {
                wire::select::normalize_http_name(&wire::select::raw_http_name(&self.method, &self.path))
            }
            Transport::Grpc => self.path.clone(),
        }
    }

    /// Whether this names the request: `POST /orders/{id}`, or a gRPC method with or without its service.
    pub fn is_named(&self, name: &str) -> bool {
        match self.transport {
            Transport::Http => wire::select::call_matches(name, &wire::select::raw_http_name(&self.method, &self.path)),
            Transport::Grpc => wire::select::call_matches(name, &self.path),
        }
    }

    pub fn url(&self) -> String {
        format!("{}{}", self.origin(), self.path)
    }

    /// Settings for this request and for those before, after and at its login, as far as they use TLS.
    pub fn set_tls(&mut self, settings: &TlsSettings) {
        let login = self.login.as_mut().map(|login| &mut login.request);
        let own = [&mut self.tls];
        let others = self.before.iter_mut().chain(&mut self.after).chain(login).map(|spec| &mut spec.tls);
        for tls in own.into_iter().chain(others).filter(|tls| tls.is_some()) {
            *tls = Some(settings.clone());
        }
    }

    /// Whether this request, or one before, after or at its login, uses TLS.
    pub fn uses_tls(&self) -> bool {
        let others = self.before.iter().chain(&self.after).chain(self.login.as_ref().map(|login| &login.request));
        std::iter::once(self).chain(others).any(|spec| spec.tls.is_some())
    }

    /// Whether a certificate is accepted without a check.
    pub fn is_insecure(&self) -> bool {
        let others = self.before.iter().chain(&self.after).chain(self.login.as_ref().map(|login| &login.request));
        std::iter::once(self).chain(others).any(|spec| spec.tls.as_ref().is_some_and(|tls| tls.insecure))
    }

    /// The scheme, host and port: `https://shop:443`.
    pub fn origin(&self) -> String {
        let scheme = match (self.transport, self.tls.is_some()) {
            (Transport::Http, false) => "http",
            (Transport::Http, true) => "https",
            (Transport::Grpc, false) => "grpc",
            (Transport::Grpc, true) => "grpcs",
        };
        format!("{scheme}://{}", self.authority)
    }
}

/// The first character that the HTTP client would not send, or that is invisible or reorders text. A path and a query
/// may contain different ones; braces are part of `{case}`.
fn invalid_character(url: &str) -> Option<char> {
    let url = url.split('#').next().unwrap_or_default();
    let (path, query) = url.split_once('?').unwrap_or((url, ""));
    let is_sent = |before: &str, c: char| format!("{before}{c}").parse::<http::uri::PathAndQuery>().is_ok();
    let invalid =
        |text: &str, before: &str| text.chars().find(|c| c.is_whitespace() || is_deceptive(*c) || !is_sent(before, *c));
    invalid(path, "/").or_else(|| invalid(query, "/?"))
}

fn percent_encoded(c: char) -> String {
    c.encode_utf8(&mut [0; 4]).bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// Whether HTTP allows the text as a method or header name.
fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

/// Checks `host`, `host:port` or `[::1]:port`, and adds the scheme's port if there is none. The error is the reason.
fn with_port(authority: &str, own_port: u16) -> Result<String, String> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']').ok_or("the bracket around its address is not closed")?;
            if address.parse::<std::net::Ipv6Addr>().is_err() {
                return Err(format!("'{address}' is not an IPv6 address"));
            }
            let port = match port {
                "" => None,
                port => Some(port.strip_prefix(':').ok_or("the bracket must be followed by a colon and a port")?),
            };
            (&authority[..address.len() + 2], port)
        }
        None if authority.matches(':').count() > 1 => {
            return Err("an IPv6 address needs brackets, such as [::1]:8080".to_owned());
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    if host.is_empty() {
        return Err("it has no host".to_owned());
    }
    match port {
        None => Ok(format!("{host}:{own_port}")),
        Some(digits) => match digits.parse::<u16>() {
            Ok(port) if port > 0 && digits.bytes().all(|b| b.is_ascii_digit()) => Ok(format!("{host}:{port}")),
            _ => Err(format!("its port is '{digits}'; ports are 1 to 65535")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_become_requests() {
        let r = RequestSpec::parse("http://127.0.0.1:8080/cart?x=1", "get").unwrap();
        assert_eq!((r.authority.as_str(), r.path.as_str(), r.method.as_str()), ("127.0.0.1:8080", "/cart?x=1", "GET"));
        assert_eq!(RequestSpec::parse("http://shop", "GET").unwrap().authority, "shop:80");
        let r = RequestSpec::parse("https://shop/x", "GET").unwrap();
        assert_eq!((r.authority.as_str(), r.url().as_str()), ("shop:443", "https://shop:443/x"));
        assert!(r.tls.is_some() && r.transport == Transport::Http);
        assert_eq!(RequestSpec::parse("GRPCS://c:1/a.B/C", "GET").unwrap().origin(), "grpcs://c:1");
        assert_eq!(RequestSpec::parse("http://shop?x", "GET").unwrap().path, "/?x");
        for path in ["/a{case}\"?b='c'&d=[1]|{2}?", "/größe", "/a%3Cb", "/a;b,c@d!$'()*+~:^"] {
            assert_eq!(RequestSpec::parse(&format!("http://shop{path}#part"), "GET").unwrap().path, path);
        }
        assert_eq!(
            RequestSpec::parse("grpc://c:7001/shop.Currency/Convert", "GET").unwrap().name(),
            "/shop.Currency/Convert"
        );
    }

    #[test]
    fn invalid_urls_and_methods_are_refused_with_the_reason() {
        for (url, why) in [
            ("127.0.0.1:8080", "begins with"),
            ("ftp://x/", "only http://, https://"),
            ("https://x:0/", "ports are 1 to 65535"),
            ("http:///x", "no host"),
            ("grpc://x:1/Convert", "/package.Service/Method"),
            ("http://x:0/", "ports are 1 to 65535"),
            ("http://x:/", "ports are 1 to 65535"),
            ("http://x:65536/", "ports are 1 to 65535"),
            ("http://x:+80/", "ports are 1 to 65535"),
            ("http://x:http/", "ports are 1 to 65535"),
            ("http://::1/", "needs brackets"),
            ("http://[::1/", "not closed"),
            ("http://[shop]/", "not an IPv6 address"),
            ("http://[::1]8080/", "a colon and a port"),
            ("http://:80/", "no host"),
            ("http://x/a b", "must not contain ' '; write it as %20"),
            ("http://x/a\u{1b}", "must not contain '\\u{1b}'; write it as %1B"),
            ("http://x/a<b", "must not contain '<'; write it as %3C"),
            ("http://x/?a=>", "must not contain '>'; write it as %3E"),
            ("http://a<b/", "must not contain '<'"),
            ("http://x/a\u{202e}b", "must not contain '\\u{202e}'; write it as %E2%80%AE"),
            ("http://x\u{200b}/", "must not contain '\\u{200b}'"),
            ("http://anna:secret@x/", "a user and a password"),
        ] {
            let failure = RequestSpec::parse(url, "GET").unwrap_err();
            assert!(failure.why.as_deref().unwrap_or_default().contains(why), "{url}: {failure}");
        }
        for method in ["", "GE T", "GET\n", "GÉT"] {
            let failure = RequestSpec::parse("http://x/", method).unwrap_err();
            assert!(failure.what.contains("is not an HTTP method"), "{failure}");
        }
    }

    #[test]
    fn addresses_and_schemes_are_normalized() {
        for (url, authority) in
            [("http://[::1]:8080/", "[::1]:8080"), ("http://[::1]/", "[::1]:80"), ("HTTP://shop:08080#x", "shop:8080")]
        {
            assert_eq!(RequestSpec::parse(url, "GET").unwrap().authority, authority);
        }
    }

    #[test]
    fn headers_are_checked() {
        let mut r = RequestSpec::parse("http://x/", "GET").unwrap();
        r.add_header("Accept:  text/html; q=1 ").unwrap();
        assert_eq!(r.headers, [("accept".to_owned(), "text/html; q=1".to_owned())]);
        for (header, why) in [
            ("no colon", "no colon"),
            (": x", "header name"),
            ("a b: x", "header name"),
            ("a: x\r\nb: y", "must not contain '\\r'"),
        ] {
            let failure = r.add_header(header).unwrap_err();
            assert!(failure.why.as_deref().unwrap_or_default().contains(why), "{header}: {failure}");
        }
    }
}
