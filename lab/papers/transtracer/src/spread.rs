//! Distribution of connections over addresses, and the descriptor limit.

use rustix::process::{Resource, getrlimit, setrlimit};
use std::net::{Ipv4Addr, SocketAddr};

/// The message of both directions.
pub const MESSAGE: [u8; 16] = *b"sixteen bytes...";

/// The address of the n-th connection: cycles through 127.0.10.1 … 127.0.10.`addresses`.
pub fn nth(n: usize, addresses: u8, port: u16) -> SocketAddr {
    let last = 1 + (n % usize::from(addresses.max(1))) as u8;
    SocketAddr::from((Ipv4Addr::new(127, 0, 10, last), port))
}

/// Raises the descriptor limit to its maximum.
pub fn raise_descriptor_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
}

#[cfg(test)]
mod tests {
    use super::nth;

    #[test]
    fn connections_cycle_through_the_addresses() {
        let all: Vec<String> = (0..4).map(|n| nth(n, 3, 80).to_string()).collect();
        assert_eq!(all, ["127.0.10.1:80", "127.0.10.2:80", "127.0.10.3:80", "127.0.10.1:80"]);
    }
}
