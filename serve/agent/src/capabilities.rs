//! Linux capabilities that each source requires, and dropping of all others.

use flows::Source;
use model::Failure;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

/// Capabilities that a source requires while it runs.
pub fn needed(source: Source) -> CapabilitySet {
    match source {
        Source::Ebpf => CapabilitySet::BPF | CapabilitySet::PERFMON,
        Source::Polling => CapabilitySet::SYS_PTRACE | CapabilitySet::DAC_READ_SEARCH,
        Source::Tuples => CapabilitySet::empty(),
    }
}

/// Capabilities that improve the data of every source and are kept if present: for names of other users' processes, for
/// address translation, and for entering other network namespaces.
const USEFUL: CapabilitySet = CapabilitySet::SYS_PTRACE
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::NET_ADMIN)
    .union(CapabilitySet::SYS_ADMIN);

/// Drops every capability that none of `sources` uses, permanently. Returns the names of the remaining ones.
/// Capabilities belong to a thread and are inherited by threads that it starts, so call this before starting threads,
/// and again when the source is known.
pub fn reduce(sources: &[Source]) -> Result<Vec<String>, Failure> {
    let failed = |e: rustix::io::Errno| Failure::environment("cannot drop unneeded capabilities").why(e.to_string());
    let before = capabilities(None).map_err(failed)?;
    let useful = sources.iter().fold(USEFUL, |all, source| all | needed(*source));
    let kept = before.permitted & useful;
    let reduced = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    set_capabilities(None, reduced).map_err(failed)?;
    Ok(names(kept))
}

pub fn names(capabilities: CapabilitySet) -> Vec<String> {
    capabilities.iter_names().map(|(name, _)| format!("CAP_{name}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unused_capabilities_are_dropped_permanently() {
        // in its own thread, so that other tests keep their capabilities
        std::thread::spawn(|| {
            let before = capabilities(None).unwrap().permitted;
            let left = reduce(&[Source::Tuples]).unwrap();
            let after = capabilities(None).unwrap();
            assert_eq!(names(after.permitted), left);
            assert!(!after.permitted.intersects(CapabilitySet::BPF | CapabilitySet::KILL | CapabilitySet::SETUID));
            assert_eq!(after.effective, after.permitted);
            if before.contains(CapabilitySet::KILL) {
                let again =
                    CapabilitySets { effective: before, permitted: before, inheritable: CapabilitySet::empty() };
                assert!(set_capabilities(None, again).is_err());
            }
        })
        .join()
        .unwrap();
    }
}
