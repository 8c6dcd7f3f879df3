//! Checks that the listen addresses of services are free; if not, finds the process that holds them.
//!
//! A bind detects use, also by a wildcard listener. `/proc` identifies the holder if it belongs to this user.

use crate::cleanup::owned_processes::{MARK_VARIABLE, variable};
use crate::file::target::Service;
use model::Failure;
use process::{ProcDir, TcpListener, tcp_listeners};
use std::io::ErrorKind;

/// Fails if any listen address of these services is in use. Blocks for a few binds; resolves host names.
pub(crate) fn check_free<'a>(services: impl Iterator<Item = &'a Service>, file: &str) -> Result<(), Failure> {
    let mut in_use = Vec::new();
    for service in services {
        for address in &service.listens {
            // Only "in use" matters: the service itself reports a privileged port or an address of another host.
            let bound = std::net::TcpListener::bind((address.host.as_str(), address.port));
            if bound.is_err_and(|error| error.kind() == ErrorKind::AddrInUse) {
                in_use.push((service, address));
            }
        }
    }
    let Some((service, address)) = in_use.first() else {
        return Ok(());
    };
    let what = match in_use.len() {
        1 => format!("port {} is in use, but service '{}' listens on {address}", address.port, service.name),
        ports => format!("{ports} ports are in use"),
    };
    let (mut lines, mut is_other_up) = (Vec::new(), false);
    for (service, address) in &in_use {
        let prefix = match in_use.len() {
            1 => String::new(),
            _ => format!("{address} ({}): ", service.name),
        };
        match holder(address.port) {
            Some(pid) => {
                is_other_up |= variable(pid, MARK_VARIABLE).is_some();
                let name = ProcDir::open(pid).and_then(|process| process.stat()).map(|stat| stat.comm);
                let name = name.unwrap_or_default();
                lines.push(format!("{prefix}held by {name} (pid {pid})"));
            }
            None => lines.push(format!("{prefix}held by a process of another user")),
        }
    }
    Err(Failure::environment(what).why(lines.join("\n")).next(match is_other_up {
        true => "it was started by another `faultloom up`: stop that with `faultloom down`".to_owned(),
        false => format!("stop that process, or change the port in {file}"),
    }))
}

/// The process that listens on a TCP port, if `/proc` shows it to this user.
fn holder(port: u16) -> Option<u32> {
    tcp_listeners().iter().filter(|listener| listener.address.port() == port).find_map(TcpListener::holder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_of_a_port_is_found() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(holder(listener.local_addr().unwrap().port()), Some(std::process::id()));
    }
}
