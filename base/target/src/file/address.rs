//! `host:port`, `https://host:port/path` and `grpcs://host:port` as the target file writes them.

use serde::{Deserialize, Serialize};

/// A host (name, IPv4, or IPv6 without its brackets) and a port from 1 to 65535.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Address {
    pub host: String,
    pub port: u16,
}

/// An `http://` or `https://` address; `path` begins with `/` and keeps its query.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HttpAddress {
    pub is_tls: bool,
    pub address: Address,
    pub path: String,
}

/// `host:port` or `grpc://host:port` without TLS, `grpcs://host:port` with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct GrpcAddress {
    pub is_tls: bool,
    pub address: Address,
}

impl Address {
    /// The error names the problem, without repeating the text.
    pub fn parse(text: &str) -> Result<Address, &'static str> {
        let (host, port) = text.rsplit_once(':').ok_or("it has no ':port'")?;
        let port: u16 = port.parse().ok().filter(|port| *port > 0).ok_or("its port is not a number from 1 to 65535")?;
        let bracketed = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let host = match bracketed {
            Some(inside) => inside,
            None if host.contains(':') => return Err("an IPv6 address needs brackets: [::1]:8080"),
            None => host,
        };
        if host.is_empty() {
            return Err("it has no host; write 127.0.0.1 or 0.0.0.0");
        }
        if host.contains(['/', ',', '=', '@', '?', '#', '[', ']']) || host.contains(char::is_whitespace) {
            return Err("its host contains a character that no host name has");
        }
        Ok(Address { host: host.to_owned(), port })
    }

    pub fn is_wildcard(&self) -> bool {
        self.host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_unspecified())
    }

    pub fn is_loopback(&self) -> bool {
        self.host == "localhost" || self.host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }

    /// Where to connect to reach a listener at this address: loopback for a wildcard.
    pub fn reachable(&self) -> Address {
        let host = match self.host.as_str() {
            "0.0.0.0" => "127.0.0.1",
            "::" => "::1",
            host => host,
        };
        Address { host: host.to_owned(), port: self.port }
    }

    /// Every text that a caller on this machine may use for the address, the written one first.
    pub fn names(&self) -> Vec<String> {
        let mut names = vec![self.to_string()];
        let mut add = |name: String| {
            if !names.contains(&name) {
                names.push(name);
            }
        };
        if self.is_wildcard() || self.host == "localhost" {
            add(format!("127.0.0.1:{}", self.port));
        }
        if self.is_wildcard() || self.is_loopback() {
            add(format!("localhost:{}", self.port));
        }
        names
    }
}

impl HttpAddress {
    pub fn parse(text: &str) -> Result<HttpAddress, &'static str> {
        let (is_tls, rest) = match (text.strip_prefix("http://"), text.strip_prefix("https://")) {
            (Some(rest), _) => (false, rest),
            (None, Some(rest)) => (true, rest),
            (None, None) => return Err("it does not begin with http:// or https://"),
        };
        let own_port = if is_tls { 443 } else { 80 };
        let (authority, path) = match rest.find(['/', '?']) {
            Some(at) => rest.split_at(at),
            None => (rest, "/"),
        };
        let port_at_end = authority.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'));
        let address =
            if port_at_end { Address::parse(authority)? } else { Address::parse(&format!("{authority}:{own_port}"))? };
        if path.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err("its path contains a space");
        }
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok(HttpAddress { is_tls, address, path })
    }
}

impl GrpcAddress {
    pub fn parse(text: &str) -> Result<GrpcAddress, &'static str> {
        let (is_tls, rest) = match text.strip_prefix("grpcs://") {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix("grpc://").unwrap_or(text)),
        };
        Ok(GrpcAddress { is_tls, address: Address::parse(rest.trim_end_matches('/'))? })
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl std::fmt::Display for HttpAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}://{}{}", if self.is_tls { "https" } else { "http" }, self.address, self.path)
    }
}

/// Without TLS as earlier versions wrote it.
impl std::fmt::Display for GrpcAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", if self.is_tls { "grpcs://" } else { "" }, self.address)
    }
}

impl TryFrom<String> for GrpcAddress {
    type Error = &'static str;
    fn try_from(text: String) -> Result<GrpcAddress, &'static str> {
        GrpcAddress::parse(&text)
    }
}

impl From<GrpcAddress> for String {
    fn from(address: GrpcAddress) -> String {
        address.to_string()
    }
}

impl TryFrom<String> for Address {
    type Error = &'static str;
    fn try_from(text: String) -> Result<Address, &'static str> {
        Address::parse(&text)
    }
}

impl From<Address> for String {
    fn from(address: Address) -> String {
        address.to_string()
    }
}

impl TryFrom<String> for HttpAddress {
    type Error = &'static str;
    fn try_from(text: String) -> Result<HttpAddress, &'static str> {
        HttpAddress::parse(&text)
    }
}

impl From<HttpAddress> for String {
    fn from(address: HttpAddress) -> String {
        address.to_string()
    }
}
