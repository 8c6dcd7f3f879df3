//! Cookies of one login. They are kept in memory only: not in the store, not in logs, not in commands.

use crate::request::RequestSpec;
use std::sync::Arc;

/// The cookies that one reply set.
#[derive(Clone, PartialEq)]
pub struct Cookies {
    list: Arc<Vec<Cookie>>,
}

#[derive(PartialEq)]
struct Cookie {
    /// `name=value`.
    pair: String,
    /// The host that set it, or a domain above it that it also belongs to.
    host: String,
    is_of_domain: bool,
    path: String,
    /// Sent only over TLS, or to this machine.
    is_secure: bool,
}

/// The number of cookies, never their values.
impl std::fmt::Debug for Cookies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cookies({})", self.list.len())
    }
}

impl Cookies {
    /// Of a reply to `spec`. Those that the server deletes are left out.
    pub(crate) fn set_by(spec: &RequestSpec, headers: &http::HeaderMap) -> Cookies {
        let lines = headers.get_all("set-cookie").into_iter().filter_map(|line| line.to_str().ok());
        Cookies { list: Arc::new(lines.filter_map(|line| Cookie::parse(line, spec)).collect()) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The value of the `cookie` header for this request.
    pub(crate) fn header(&self, spec: &RequestSpec) -> Option<String> {
        let pairs: Vec<&str> = self.list.iter().filter(|c| c.is_for(spec)).map(|c| c.pair.as_str()).collect();
        (!pairs.is_empty()).then(|| pairs.join("; "))
    }
}

impl Cookie {
    fn parse(line: &str, spec: &RequestSpec) -> Option<Cookie> {
        let mut parts = line.split(';').map(str::trim);
        let pair = parts.next().filter(|pair| pair.split_once('=').is_some_and(|(name, _)| !name.is_empty()))?;
        let mut cookie = Cookie {
            pair: pair.to_owned(),
            host: host(spec).to_ascii_lowercase(),
            is_of_domain: false,
            path: default_path(&spec.path),
            is_secure: false,
        };
        for attribute in parts {
            let (name, value) = attribute.split_once('=').unwrap_or((attribute, ""));
            match name.trim().to_ascii_lowercase().as_str() {
                "secure" => cookie.is_secure = true,
                "path" if value.starts_with('/') => value.clone_into(&mut cookie.path),
                "domain" => {
                    let domain = value.trim_start_matches('.').to_ascii_lowercase();
                    // a server may only name itself or a domain above it, and not a whole top-level domain
                    if domain.contains('.') && is_within(&cookie.host, &domain) {
                        (cookie.host, cookie.is_of_domain) = (domain, true);
                    }
                }
                "max-age" if value.trim().parse::<i64>().is_ok_and(|seconds| seconds <= 0) => return None,
                _ => {}
            }
        }
        Some(cookie)
    }

    fn is_for(&self, spec: &RequestSpec) -> bool {
        let target = host(spec).to_ascii_lowercase();
        let is_host = if self.is_of_domain { is_within(&target, &self.host) } else { target == self.host };
        let path = spec.path.split('?').next().unwrap_or("/");
        let is_path = path
            .strip_prefix(self.path.as_str())
            .is_some_and(|rest| rest.is_empty() || self.path.ends_with('/') || rest.starts_with('/'));
        is_host && is_path && (!self.is_secure || spec.tls.is_some() || is_this_machine(&target))
    }
}

fn host(spec: &RequestSpec) -> &str {
    spec.authority.rsplit_once(':').map_or(spec.authority.as_str(), |(host, _)| host)
}

fn is_within(host: &str, domain: &str) -> bool {
    host == domain || host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'))
}

fn is_this_machine(host: &str) -> bool {
    host == "localhost" || host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// The folder of the request's path.
fn default_path(path: &str) -> String {
    let path = path.split('?').next().unwrap_or("/");
    match path.rfind('/') {
        None | Some(0) => "/".to_owned(),
        Some(at) => path[..at].to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(url: &str) -> RequestSpec {
        RequestSpec::parse(url, "GET").unwrap()
    }

    fn cookies(url: &str, lines: &[&str]) -> Cookies {
        let mut headers = http::HeaderMap::new();
        for line in lines {
            headers.append("set-cookie", line.parse().unwrap());
        }
        Cookies::set_by(&spec(url), &headers)
    }

    #[test]
    fn cookies_are_sent_to_their_host_and_path_only() {
        let all = cookies(
            "https://shop.example/login",
            &["a=1; Path=/; HttpOnly", "b=2; Path=/account", "c=3; Domain=.example.com", "gone=; Max-Age=0"],
        );
        let sent = |url: &str| all.header(&spec(url));
        assert_eq!(sent("https://shop.example/").as_deref(), Some("a=1; c=3"));
        assert_eq!(sent("http://shop.example:8080/account/x").as_deref(), Some("a=1; b=2; c=3"));
        assert_eq!(sent("https://shop.example/accounts").as_deref(), Some("a=1; c=3"));
        assert_eq!(sent("https://other.example/"), None);
        let wide = cookies("https://www.shop.example/in", &["s=1; Domain=shop.example; Path=/"]);
        assert_eq!(wide.header(&spec("https://api.shop.example/")).as_deref(), Some("s=1"));
        assert_eq!(wide.header(&spec("https://notshop.example/")), None);
    }

    #[test]
    fn secure_cookies_need_tls_or_this_machine() {
        let all = cookies("https://shop.example/", &["a=1; Secure"]);
        assert_eq!(all.header(&spec("http://shop.example/")), None);
        assert!(cookies("http://127.0.0.1:1/", &["a=1; Secure"]).header(&spec("http://127.0.0.1:2/")).is_some());
    }

    #[test]
    fn values_are_not_printed() {
        assert_eq!(format!("{:?}", cookies("http://a/", &["session=hunter"])), "Cookies(1)");
    }
}
