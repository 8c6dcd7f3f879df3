//! Identity and addresses of this host.

use crate::namespaces;
use flows::{Host, HostId};
use model::Failure;
use std::path::Path;

/// Reads the current values. Includes the addresses of every accessible network namespace.
pub fn this_host() -> Result<Host, Failure> {
    let name = read("/proc/sys/kernel/hostname").unwrap_or_else(|| "unnamed".to_owned());
    let boot = read("/proc/sys/kernel/random/boot_id").ok_or_else(|| {
        Failure::environment("cannot determine the boot id of this host")
            .why("/proc/sys/kernel/random/boot_id is not readable")
            .next("mount /proc")
    })?;
    let id = ["/etc/machine-id", "/var/lib/dbus/machine-id"].into_iter().find_map(read).unwrap_or_else(|| name.clone());
    Ok(Host { id: HostId(id), name, boot, addresses: namespaces::addresses() })
}

fn read(path: impl AsRef<Path>) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_has_a_name_and_a_boot_id() {
        let host = this_host().unwrap();
        assert!(!host.id.0.is_empty() && !host.name.is_empty());
        assert_eq!(host.boot.len(), 36);
        assert!(host.addresses.iter().all(|address| !address.ip.is_loopback()));
    }
}
