//! Which processors the engine and its processes use.
//!
//! The engine and the golden process take turns hundreds of thousands of times. On one processor a turn is a switch between
//! two processes; on two, each of them sleeps in between, and waking a sleeping processor costs more than the turn itself,
//! in a virtual machine above all. Forks run on the others, one each. So a program that asks sees one processor in every run.
#![allow(unsafe_code)] // the affinity of processes has no checked interface

use crate::tracee::Pid;

pub struct Cores {
    /// Without the engine's own. Empty if there is no other: everything then runs on that one.
    others: Vec<usize>,
    next: usize,
}

impl Cores {
    /// Keeps the calling thread, and what it starts from now on, on the processor where it runs.
    pub fn take() -> Cores {
        let mut allowed = Set::empty();
        // SAFETY: the kernel fills a set of the size it is told.
        let known = unsafe { libc::sched_getaffinity(0, Set::BYTES, &mut allowed.0) } == 0;
        // SAFETY: no memory is involved.
        let own = usize::try_from(unsafe { libc::sched_getcpu() }).ok().filter(|&own| known && own < Set::BITS);
        let Some(own) = own else { return Cores { others: Vec::new(), next: 0 } };
        bind(0, own);
        Cores { others: (0..Set::BITS).filter(|&core| core != own && allowed.has(core)).collect(), next: 0 }
    }

    /// Gives a fork its processor.
    pub fn spread(&mut self, fork: Pid) {
        if let Some(&core) = self.others.get(self.next) {
            bind(fork, core);
            self.next = (self.next + 1) % self.others.len();
        }
    }
}

/// Or leaves it where it is: all goes as well there, only slower.
fn bind(process: Pid, core: usize) {
    let mut only = Set::empty();
    only.add(core);
    // SAFETY: the kernel reads a set of the size it is told.
    unsafe { libc::sched_setaffinity(process, Set::BYTES, &only.0) };
}

struct Set(libc::cpu_set_t);

impl Set {
    const BYTES: usize = size_of::<libc::cpu_set_t>();
    const BITS: usize = 8 * Set::BYTES;

    fn empty() -> Set {
        // SAFETY: the structure consists of integers only.
        Set(unsafe { std::mem::zeroed() })
    }

    fn has(&self, core: usize) -> bool {
        // SAFETY: the index is below the number of bits.
        unsafe { libc::CPU_ISSET(core, &self.0) }
    }

    fn add(&mut self, core: usize) {
        // SAFETY: the kernel named the processor: its number is below the number of bits.
        unsafe { libc::CPU_SET(core, &mut self.0) }
    }
}
