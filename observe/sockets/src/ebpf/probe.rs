//! What counting in the kernel needs, and what of it is here: asked before anything is loaded, for words that help.

use super::kernel;
use std::os::unix::fs::MetadataExt;

/// Something that is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    pub what: &'static str,
    /// Why it is missing and what to do, or none if it is here.
    pub missing: Option<String>,
}

const BTF: &str = "/sys/kernel/btf/vmlinux";
/// Number of the first pid namespace in every kernel.
const HOST_PIDS: u64 = 0xEFFF_FFFC;

const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// Every requirement, in the order in which they matter. All here does not promise that loading succeeds: a security
/// module may still refuse, and the error of `EbpfCollector::start` then says so.
pub fn probe() -> Vec<Requirement> {
    let types =
        std::fs::read(BTF).map_err(|e| format!("{BTF}: {e}; the kernel was built without CONFIG_DEBUG_INFO_BTF"));
    let knows = |name: &str| match &types {
        Ok(bytes) if holds_name(bytes, name) => None,
        Ok(_) => Some(format!("this kernel has no {name}; 5.12 is the oldest that works")),
        Err(_) => Some("its types cannot be read".into()),
    };
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let capability = |name: &str, number| {
        let has = capable(&status, number) || capable(&status, CAP_SYS_ADMIN);
        (!has).then(|| {
            format!("this process has not {name}; run as root, or give it (setcap, systemd AmbientCapabilities)")
        })
    };
    let requirement = |what, missing| Requirement { what, missing };
    vec![
        requirement("CAP_BPF", capability("CAP_BPF", CAP_BPF)),
        requirement("CAP_PERFMON", capability("CAP_PERFMON", CAP_PERFMON)),
        requirement("bpf(2)", kernel::make_table().err().map(|e| format!("the kernel refuses to make a table: {e}"))),
        requirement("the kernel's types (BTF)", types.as_ref().err().cloned()),
        requirement("tracepoint inet_sock_set_state", knows("btf_trace_inet_sock_set_state")),
        requirement("iterator task_file", knows("bpf_iter_task_file")),
        requirement("tracing is not locked down", lockdown()),
        requirement("the host's pid namespace", pid_namespace()),
    ]
}

/// BTF keeps its names in one section, each ended by NUL.
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
    modes.contains("[confidentiality]").then(|| "the kernel is locked down for confidentiality (lockdown=)".into())
}

fn pid_namespace() -> Option<String> {
    let ours = std::fs::metadata("/proc/self/ns/pid").map(|it| it.ino()).ok()?;
    (ours != HOST_PIDS).then(|| {
        "pids of the kernel mean nothing here; run on the host, or the container with its pid namespace (--pid=host)".into()
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
    fn names_are_whole() {
        let types = b"\0int\0btf_trace_inet_sock_set_state\0";
        assert!(holds_name(types, "btf_trace_inet_sock_set_state"));
        assert!(!holds_name(types, "inet_sock_set_state"));
    }
}
