//! Recognizes proxies that a container runtime starts for a published port, and the container address behind them.

use super::program::{Invocation, base_name};
use flows::{ListenAddress, Protocol};
use std::net::IpAddr;

/// Listen address and destination of a proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    pub protocol: Protocol,
    pub listens_on: ListenAddress,
    pub forwards_to: ListenAddress,
}

impl Proxy {
    /// `docker-proxy -proto tcp -host-ip 0.0.0.0 -host-port 8080 -container-ip 172.17.0.2 -container-port 80`
    pub fn of(invocation: &Invocation) -> Option<Proxy> {
        if base_name(&invocation.executable) != "docker-proxy" {
            return None;
        }
        let value = |name: &str| {
            let at = invocation.arguments.iter().position(|argument| argument.trim_start_matches('-') == name)?;
            invocation.arguments.get(at + 1)
        };
        let end = |ip: &str, port: &str| {
            Some(ListenAddress::Inet { ip: value(ip)?.parse().ok()?, port: value(port)?.parse().ok()? })
        };
        let protocol = match value("proto").map(String::as_str) {
            Some("udp") => Protocol::Udp,
            _ => Protocol::Tcp,
        };
        let (listens_on, forwards_to) = (end("host-ip", "host-port")?, end("container-ip", "container-port")?);
        Some(Proxy { protocol, listens_on, forwards_to })
    }

    /// Whether the proxy accepts connections to this address. `is_local` returns whether an address belongs to this
    /// host.
    pub fn accepts(&self, address: &ListenAddress, is_local: impl Fn(IpAddr) -> bool) -> bool {
        match (&self.listens_on, address) {
            (ListenAddress::Inet { ip: listens_on, port }, ListenAddress::Inet { ip, port: to }) => {
                port == to
                    && (listens_on == ip
                        || listens_on.is_unspecified() && listens_on.is_ipv4() == ip.is_ipv4() && is_local(*ip))
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn docker_proxies_are_recognized() {
        let line =
            "docker-proxy -proto tcp -host-ip 0.0.0.0 -host-port 8080 -container-ip 172.17.0.2 -container-port 80";
        let line = line.replace(' ', "\0");
        let proxy = Proxy::of(&Invocation::new("/usr/bin/docker-proxy", line.as_bytes(), None)).unwrap();
        assert_eq!(proxy.listens_on.to_string(), "0.0.0.0:8080");
        assert_eq!(proxy.forwards_to.to_string(), "172.17.0.2:80");
        let at = |ip: &str, port| {
            proxy.accepts(&ListenAddress::Inet { ip: ip.parse().unwrap(), port }, |ip| ip.is_loopback())
        };
        assert!(at("127.0.0.1", 8080) && !at("127.0.0.1", 80) && !at("10.0.0.7", 8080) && !at("::1", 8080));
        assert_eq!(Proxy::of(&Invocation::new("/usr/bin/docker", line.as_bytes(), None)), None);
        assert_eq!(Proxy::of(&Invocation::new("/usr/bin/docker-proxy", b"docker-proxy\0-host-ip\0x\0", None)), None);
    }
}
