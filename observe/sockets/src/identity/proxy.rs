//! Proxies that a container runtime puts in front of a published port: they stand for the container behind them.

use super::program::{Invocation, base_name};
use flows::{Passive, Protocol};
use std::net::IpAddr;

/// What a proxy takes, and where it passes it on to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    pub protocol: Protocol,
    pub takes: Passive,
    pub passes_to: Passive,
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
            Some(Passive::Inet { ip: value(ip)?.parse().ok()?, port: value(port)?.parse().ok()? })
        };
        let protocol = match value("proto").map(String::as_str) {
            Some("udp") => Protocol::Udp,
            _ => Protocol::Tcp,
        };
        let (takes, passes_to) = (end("host-ip", "host-port")?, end("container-ip", "container-port")?);
        Some(Proxy { protocol, takes, passes_to })
    }

    /// Whether connections to this address are taken. `ours` tells the addresses of this host.
    pub fn is_at(&self, address: &Passive, ours: impl Fn(IpAddr) -> bool) -> bool {
        match (&self.takes, address) {
            (Passive::Inet { ip: takes, port }, Passive::Inet { ip, port: to }) => {
                port == to && (takes == ip || takes.is_unspecified() && takes.is_ipv4() == ip.is_ipv4() && ours(*ip))
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn docker_proxies_tell_where_they_lead() {
        let line =
            "docker-proxy -proto tcp -host-ip 0.0.0.0 -host-port 8080 -container-ip 172.17.0.2 -container-port 80";
        let line = line.replace(' ', "\0");
        let proxy = Proxy::of(&Invocation::new("/usr/bin/docker-proxy", line.as_bytes(), None)).unwrap();
        assert_eq!(proxy.takes.to_string(), "0.0.0.0:8080");
        assert_eq!(proxy.passes_to.to_string(), "172.17.0.2:80");
        let at = |ip: &str, port| proxy.is_at(&Passive::Inet { ip: ip.parse().unwrap(), port }, |ip| ip.is_loopback());
        assert!(at("127.0.0.1", 8080) && !at("127.0.0.1", 80) && !at("10.0.0.7", 8080) && !at("::1", 8080));
        assert_eq!(Proxy::of(&Invocation::new("/usr/bin/docker", line.as_bytes(), None)), None);
        assert_eq!(Proxy::of(&Invocation::new("/usr/bin/docker-proxy", b"docker-proxy\0-host-ip\0x\0", None)), None);
    }
}
