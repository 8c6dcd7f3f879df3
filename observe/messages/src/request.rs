//! What is sent: an HTTP request, or a unary gRPC call.

use model::Failure;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    Http,
    Grpc,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Body(pub Vec<u8>);

/// One request, ready to be sent as often as wanted. For gRPC `path` is the full method and `body` the serialized message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RequestSpec {
    pub transport: Transport,
    pub method: String,
    pub authority: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub timeout_ms: u64,
}

impl RequestSpec {
    /// How long a reply is waited for, unless something else is said.
    pub const TIMEOUT_MS: u64 = 10_000;

    /// `http://host[:port]/path`, or `grpc://host:port/package.Service/Method`.
    pub fn parse(url: &str, method: &str) -> Result<RequestSpec, Failure> {
        let refuse = |why: &str| {
            Failure::request(format!("'{url}' cannot be requested"))
                .why(why)
                .next("such as http://127.0.0.1:8080/ or grpc://127.0.0.1:7001/shop.Currency/Convert")
        };
        let (scheme, rest) = url.split_once("://").ok_or_else(|| refuse("a URL begins with http:// or grpc://"))?;
        let transport = match scheme {
            "http" => Transport::Http,
            "grpc" => Transport::Grpc,
            "https" => {
                return Err(refuse("TLS is not supported here; name the service's plain listener"));
            }
            _ => return Err(refuse("only http:// and grpc:// are understood")),
        };
        let (authority, path) = match rest.find(['/', '?']) {
            Some(at) => (&rest[..at], &rest[at..]),
            None => (rest, ""),
        };
        if authority.is_empty() || authority.contains('@') || authority.contains(char::is_whitespace) {
            return Err(refuse("it has no host"));
        }
        let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let authority = if has_port { authority.to_owned() } else { format!("{authority}:80") };
        let path = path.split('#').next().unwrap_or("");
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        if transport == Transport::Grpc && path.matches('/').count() != 2 {
            return Err(refuse("a gRPC path is /package.Service/Method"));
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
        })
    }

    /// The name of the entry call: `GET /`, or the gRPC method.
    pub fn name(&self) -> String {
        match self.transport {
            Transport::Http => {
                wire::select::normalised_http_name(&wire::select::raw_http_name(&self.method, &self.path))
            }
            Transport::Grpc => self.path.clone(),
        }
    }

    pub fn url(&self) -> String {
        let scheme = if self.transport == Transport::Http { "http" } else { "grpc" };
        format!("{scheme}://{}{}", self.authority, self.path)
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
        assert_eq!(RequestSpec::parse("http://shop?x", "GET").unwrap().path, "/?x");
        assert_eq!(
            RequestSpec::parse("grpc://c:7001/shop.Currency/Convert", "GET").unwrap().name(),
            "/shop.Currency/Convert"
        );
    }

    #[test]
    fn what_cannot_be_sent_is_refused_with_the_reason() {
        for (url, why) in [
            ("127.0.0.1:8080", "begins with"),
            ("https://x/", "TLS"),
            ("http:///x", "no host"),
            ("grpc://x:1/Convert", "/package.Service/Method"),
        ] {
            let failure = RequestSpec::parse(url, "GET").unwrap_err();
            assert!(failure.why.as_deref().unwrap_or_default().contains(why), "{url}: {failure}");
        }
    }
}
