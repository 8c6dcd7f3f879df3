//! The signal that an access to an address would raise, as processor and kernel decide it.
//!
//! They check, in this order: that the address is canonical (its upper 17 bits are equal), its alignment, and the page
//! tables. A signal from one of the first two has neither an address nor a specific code.

use crate::processor::memory_operand::{ByteSpan, MemoryOperand};
use crate::program::mappings::Mappings;
use sandbox::tracee::Tracee;
use std::io;

/// One past the last address a program may have.
const END: u64 = (1 << 47) - PAGE;
const PAGE: u64 = 4096;
const SEGV_MAPERR: i32 = 1;
const SEGV_ACCERR: i32 = 2;
const BUS_ADRERR: i32 = 2;
const SI_KERNEL: i32 = 0x80;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AccessFault {
    pub signal: i32,
    pub code: i32,
    pub address: u64,
}

impl AccessFault {
    fn without_address(signal: i32) -> AccessFault {
        AccessFault { signal, code: SI_KERNEL, address: 0 }
    }

    /// Sets the signal's details, which the program receives when it is resumed with the signal.
    pub fn prepare(self, tracee: &Tracee) -> io::Result<()> {
        tracee.set_signal_details(self.signal, self.code, self.address)
    }
}

/// The fault that an access of `memory` at `span` raises. None: it succeeds.
pub(crate) fn of_access(
    tracee: &Tracee,
    memory: &MemoryOperand,
    span: ByteSpan,
    write: bool,
) -> io::Result<Option<AccessFault>> {
    let (first, last) = (span.first(), span.last());
    if !canonical(first) || !canonical(last) {
        return Ok(Some(AccessFault::without_address(if memory.on_stack() { libc::SIGBUS } else { libc::SIGSEGV })));
    }
    if memory.aligned && !span.address.is_multiple_of(memory.size.into()) {
        return Ok(Some(AccessFault::without_address(libc::SIGSEGV)));
    }
    let boundary = last & !(PAGE - 1);
    let pages = if first < boundary { vec![first, span.first_from(boundary)] } else { vec![first] };
    // reading also grows the stack, as the access would
    let present: Vec<bool> = pages.iter().map(|&at| at < END && tracee.read(at, &mut [0]).is_ok()).collect();
    let mappings = Mappings::of(tracee.pid)?;
    Ok(pages.into_iter().zip(present).find_map(|(at, present)| of_page(&mappings, at, present, write)))
}

fn of_page(mappings: &Mappings, address: u64, present: bool, write: bool) -> Option<AccessFault> {
    let Some(mapping) = mappings.at(address) else {
        return Some(AccessFault { signal: libc::SIGSEGV, code: SEGV_MAPERR, address });
    };
    let allowed = if write { mapping.writable } else { mapping.readable };
    match (allowed, present) {
        (false, _) => Some(AccessFault { signal: libc::SIGSEGV, code: SEGV_ACCERR, address }),
        // the mapping extends beyond the end of its file
        (true, false) if mapping.name.starts_with('/') => {
            Some(AccessFault { signal: libc::SIGBUS, code: BUS_ADRERR, address })
        }
        (true, _) => None,
    }
}

/// Whether bits 47 to 63 are equal.
fn canonical(address: u64) -> bool {
    (address as i64) << 16 >> 16 == address as i64
}
