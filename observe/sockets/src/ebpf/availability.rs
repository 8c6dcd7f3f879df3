//! Checks the requirements of the eBPF collector before anything is loaded, for precise error messages.

use super::kernel;
use std::os::unix::fs::MetadataExt;

/// One requirement of the eBPF collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    pub what: &'static str,
    /// Why it is missing and how to fix that; none if it is met.
    pub missing: Option<String>,
}

const BTF: &str = "/sys/kernel/btf/vmlinux";
/// Inode number of the initial PID namespace in every kernel.
const HOST_PIDS: u64 = 0xEFFF_FFFC;

const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// Checks every requirement, most important first. Loading can still fail if all are met, for example because of a
/// security module; `EbpfCollector::start` then returns the error.
pub fn requirements() -> Vec<Requirement> {
    let types =
        std::fs::read(BTF).map_err(|e| format!("{BTF}: {e}; the kernel was built without CONFIG_DEBUG_INFO_BTF"));
    let has_type = |name: &str| match &types {
        Ok(bytes) if holds_name(bytes, name) => None,
        Ok(_) => Some(format!("this kernel has no {name}; Linux 5.12 or newer is required")),
        Err(_) => Some("the kernel's BTF types cannot be read".into()),
    };
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let capability = |name: &str, number| {
        let has = capable(&status, number) || capable(&status, CAP_SYS_ADMIN);
        let advice = if rustix::process::geteuid().is_root() {
            "grant it to the container"
        } else {
            "run as root, or grant it (setcap, systemd AmbientCapabilities)"
        };
        (!has).then(|| format!("this process lacks {name}; {advice}"))
    };
    let requirement = |what, missing| Requirement { what, missing };
    vec![
        requirement("CAP_BPF", capability("CAP_BPF", CAP_BPF)),
        requirement("CAP_PERFMON", capability("CAP_PERFMON", CAP_PERFMON)),
        requirement(
            "bpf(2)",
            kernel::create_table().err().map(|e| format!("the kernel refused to create a table: {e}")),
        ),
        requirement("kernel types (BTF)", types.as_ref().err().cloned()),
        requirement("tracepoint inet_sock_set_state", has_type("btf_trace_inet_sock_set_state")),
        requirement("iterator task_file", has_type("bpf_iter_task_file")),
        requirement("no lockdown of tracing", lockdown()),
        requirement("host PID namespace", pid_namespace()),
    ]
}

/// BTF stores its names in one section, separated by NUL.
fn holds_name(types: &[u8], name: &str) -> bool {
    let needle: Vec<u8> = [&[0], name.as_bytes(), &[0]].concat();
    types.windows(needle.len()).any(|window| window == needle)
}

fn capable(status: &str, number: u32) -> bool {
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    bits >> number & 1 == 1
}

fn lockdown() -> Option<String> {
    let modes = std::fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default();
    modes.contains("[confidentiality]").then(|| "the kernel is in confidentiality lockdown (lockdown=)".into())
}

fn pid_namespace() -> Option<String> {
    let ours = std::fs::metadata("/proc/self/ns/pid").map(|metadata| metadata.ino()).ok()?;
    (ours != HOST_PIDS).then(|| {
        "process ids of the kernel are not valid in this PID namespace; run on the host, or in a container with --pid=host".into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effective_capabilities_are_read_by_bit() {
        let status = "Name:\tx\nCapPrm:\tffffffffffffffff\nCapEff:\t000000c000000000\n";
        assert!(capable(status, CAP_PERFMON) && capable(status, CAP_BPF));
        assert!(!capable(status, CAP_SYS_ADMIN));
        assert!(!capable("", CAP_BPF));
    }

    #[test]
    fn only_whole_names_match() {
        let types = b"\0int\0btf_trace_inet_sock_set_state\0";
        assert!(holds_name(types, "btf_trace_inet_sock_set_state"));
        assert!(!holds_name(types, "inet_sock_set_state"));
    }
}
