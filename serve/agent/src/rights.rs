//! Rights: which a way of seeing needs, which there are, and giving up the others.

use flows::Source;
use model::Failure;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

/// What a source needs while it runs.
pub fn needed(source: Source) -> CapabilitySet {
    match source {
        Source::Ebpf => CapabilitySet::BPF | CapabilitySet::PERFMON,
        Source::Polling => CapabilitySet::SYS_PTRACE | CapabilitySet::DAC_READ_SEARCH,
        Source::Tuples => CapabilitySet::empty(),
    }
}

/// What makes every source's answers better and is kept if it is there: names of other users' processes, address
/// translations, and entering network namespaces other than our own.
const USEFUL: CapabilitySet = CapabilitySet::SYS_PTRACE
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::NET_ADMIN)
    .union(CapabilitySet::SYS_ADMIN);

/// Gives up every capability that none of `sources` uses, for good. Rights are a thread's own, and passed on to threads
/// that it starts: so it is called before any are started, and again when the source is chosen. Returns what is left, by name.
pub fn reduce(sources: &[Source]) -> Result<Vec<String>, Failure> {
    let failed =
        |e: rustix::io::Errno| Failure::environment("rights that are not needed cannot be given up").why(e.to_string());
    let before = capabilities(None).map_err(failed)?;
    let wanted = sources.iter().fold(USEFUL, |all, source| all | needed(*source));
    let kept = before.permitted & wanted;
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
    fn rights_that_a_source_does_not_use_are_gone_for_good() {
        // rights are a thread's own, so the other tests keep theirs
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
