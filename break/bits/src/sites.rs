//! Which instructions may be hit: by function, by library, and only while a handler runs.

use crate::code::Admission;
use crate::modules::Modules;
use crate::protocol::Sites;
use crate::tracee::{Pid, Registers};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// The filter on addresses. Clones share what is known of the modules.
#[derive(Clone)]
pub struct Filter {
    sites: Sites,
    pub modules: Rc<RefCell<Modules>>,
}

impl Filter {
    pub fn new(sites: Sites, modules: Modules) -> Filter {
        Filter { sites, modules: Rc::new(RefCell::new(modules)) }
    }
}

impl Admission for Filter {
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

/// `libevent` names `libevent-2.1.so.7`.
fn matches_library(module: &str, name: &str) -> bool {
    module.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-']))
}

/// Whether one of the wanted handlers runs, with all it calls.
pub struct Handlers {
    entries: HashSet<u64>,
    /// By thread, the stack pointer at the entry of the outermost one: it points to the return address.
    inside: HashMap<Pid, u64>,
}

impl Handlers {
    /// Without entries, everything is inside.
    pub fn new(entries: HashSet<u64>) -> Handlers {
        Handlers { entries, inside: HashMap::new() }
    }

    /// What a thread is about to run; called where a run begins. True: not in a handler.
    pub fn outside(&mut self, thread: Pid, registers: &Registers) -> bool {
        if self.entries.is_empty() {
            return false;
        }
        // its frame is gone: it returned, or was left by a long jump
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
    fn inside_is_from_the_entry_to_the_return_with_all_that_is_called() {
        let at = |rip: u64, rsp: u64| Registers { rip, rsp, ..crate::tracee::no_registers() };
        let mut handlers = Handlers::new(HashSet::from([0x100]));
        assert!(handlers.outside(1, &at(0x50, 1000)), "before");
        assert!(!handlers.outside(1, &at(0x100, 992)), "its first instruction");
        assert!(!handlers.outside(1, &at(0x900, 900)), "what it calls");
        assert!(!handlers.outside(1, &at(0x120, 992)), "its own return");
        assert!(handlers.outside(2, &at(0x900, 900)), "another thread");
        assert!(handlers.outside(1, &at(0x58, 1000)), "after");
        assert!(!Handlers::new(HashSet::new()).outside(1, &at(0x50, 1000)), "no filter, all inside");
    }
}
