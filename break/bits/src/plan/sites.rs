//! Selects the instructions that may be hit: by function, by library, and only while a handler runs.

use crate::engine_messages::Sites;
use crate::program::modules::Modules;
use crate::tracing::code::Admission;
use sandbox::tracee::{Pid, Registers};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// The filter on addresses. Clones share their cache of modules.
#[derive(Clone)]
pub struct SiteFilter {
    sites: Sites,
    pub modules: Rc<RefCell<Modules>>,
}

impl SiteFilter {
    pub fn new(sites: Sites, modules: Modules) -> SiteFilter {
        SiteFilter { sites, modules: Rc::new(RefCell::new(modules)) }
    }
}

impl Admission for SiteFilter {
    fn admits(&mut self, ip: u64) -> bool {
        let Sites { symbols, libraries, except, .. } = &self.sites;
        if symbols.is_empty() && libraries.is_empty() && except.is_empty() {
            return true;
        }
        let mut modules = self.modules.borrow_mut();
        let module = modules.module(ip);
        let named = |names: &[String]| names.iter().any(|name| matches_library(module, name));
        let library = !named(except) && (libraries.is_empty() || named(libraries));
        library && (symbols.is_empty() || modules.symbol(ip).is_some_and(|symbol| symbols.iter().any(|s| s == symbol)))
    }
}

/// `libevent` matches `libevent-2.1.so.7`.
fn matches_library(module: &str, name: &str) -> bool {
    module.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-']))
}

/// Tracks whether one of the selected handlers, or a function that it calls, is running.
pub struct HandlerTracker {
    entries: HashSet<u64>,
    /// By thread, the stack pointer at the entry of the outermost handler: it points to the return address.
    inside: HashMap<Pid, u64>,
}

impl HandlerTracker {
    /// Without entries, everything counts as inside.
    pub fn new(entries: HashSet<u64>) -> HandlerTracker {
        HandlerTracker { entries, inside: HashMap::new() }
    }

    /// Whether a thread is outside the handlers. Called with its registers at the start of every block.
    pub fn is_outside(&mut self, thread: Pid, registers: &Registers) -> bool {
        if self.entries.is_empty() {
            return false;
        }
        // its frame has ended: it returned, or a long jump left it
        if self.inside.get(&thread).is_some_and(|frame| registers.rsp > *frame) {
            self.inside.remove(&thread);
        }
        if self.entries.contains(&registers.rip) {
            self.inside.entry(thread).or_insert(registers.rsp);
        }
        !self.inside.contains_key(&thread)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_named_without_its_version() {
        assert!(matches_library("libevent-2.1.so.7", "libevent"));
        assert!(matches_library("memcached", "memcached"));
        assert!(!matches_library("libeventful.so", "libevent"));
    }

    #[test]
    fn inside_is_from_entry_to_return_including_callees() {
        let at = |rip: u64, rsp: u64| Registers { rip, rsp, ..sandbox::tracee::no_registers() };
        let mut handlers = HandlerTracker::new(HashSet::from([0x100]));
        assert!(handlers.is_outside(1, &at(0x50, 1000)), "before");
        assert!(!handlers.is_outside(1, &at(0x100, 992)), "its first instruction");
        assert!(!handlers.is_outside(1, &at(0x900, 900)), "what it calls");
        assert!(!handlers.is_outside(1, &at(0x120, 992)), "its own return");
        assert!(handlers.is_outside(2, &at(0x900, 900)), "another thread");
        assert!(handlers.is_outside(1, &at(0x58, 1000)), "after");
        assert!(!HandlerTracker::new(HashSet::new()).is_outside(1, &at(0x50, 1000)), "no filter, all inside");
    }
}
