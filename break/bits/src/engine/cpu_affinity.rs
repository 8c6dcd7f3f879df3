//! Assigns processors to the engine and its processes.
//!
//! The engine and the golden process alternate hundreds of thousands of times. On one processor each alternation is a
//! context switch. On two, both processes sleep in between, and waking a sleeping processor costs more than the work
//! itself, above all in a virtual machine. So both run on one processor, and forks on the others, one each. A program
//! that queries its affinity gets one processor in every run.
#![allow(unsafe_code)] // the affinity of processes has no checked interface

use sandbox::tracee::Pid;

pub struct Cores {
    /// All but the engine's. Empty if there is no other: then everything runs on one.
    others: Vec<usize>,
    next: usize,
}

impl Cores {
    /// Binds the calling thread, and what it starts from now on, to its current processor.
    pub fn take() -> Cores {
        let mut allowed = Set::empty();
        // SAFETY: the kernel fills a set of the given size.
        let filled = unsafe { libc::sched_getaffinity(0, Set::BYTES, &mut allowed.0) } == 0;
        // SAFETY: no memory is involved.
        let own = usize::try_from(unsafe { libc::sched_getcpu() }).ok().filter(|&own| filled && own < Set::BITS);
        let Some(own) = own else { return Cores { others: Vec::new(), next: 0 } };
        bind(0, own);
        Cores { others: (0..Set::BITS).filter(|&core| core != own && allowed.has(core)).collect(), next: 0 }
    }

    /// Binds a fork to the next processor.
    pub fn spread(&mut self, fork: Pid) {
        if let Some(&core) = self.others.get(self.next) {
            bind(fork, core);
            self.next = (self.next + 1) % self.others.len();
        }
    }
}

/// Errors are ignored: everything works without, only slower.
fn bind(process: Pid, core: usize) {
    let mut only = Set::empty();
    only.add(core);
    // SAFETY: the kernel reads a set of the given size.
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
