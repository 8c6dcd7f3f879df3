//! What the processor and the kernel would have made of an access to an address that an instruction never had.
//!
//! In this order: an address that is no address (its upper 17 bits differ), then alignment, then the page tables. The first
//! two tell the program neither the address nor more of a reason.

use crate::access::{Memory, Span};
use crate::mappings::Mappings;
use crate::tracee::Tracee;
use std::io;

/// One past the last address a program may have.
const END: u64 = (1 << 47) - PAGE;
const PAGE: u64 = 4096;
const SEGV_MAPERR: i32 = 1;
const SEGV_ACCERR: i32 = 2;
const BUS_ADRERR: i32 = 2;
const SI_KERNEL: i32 = 0x80;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub signal: i32,
    pub code: i32,
    pub address: u64,
}

impl Fault {
    fn without_address(signal: i32) -> Fault {
        Fault { signal, code: SI_KERNEL, address: 0 }
    }

    /// Makes the program see it as its own when it is resumed with the signal.
    pub fn prepare(self, tracee: &Tracee) -> io::Result<()> {
        tracee.set_signal_details(self.signal, self.code, self.address)
    }
}

/// What an access of `memory` to `span`, where it never had its operand, raises. None: it succeeds.
pub(crate) fn of_access(tracee: &Tracee, memory: &Memory, span: Span, write: bool) -> io::Result<Option<Fault>> {
    let (first, last) = (span.first(), span.last());
    if !canonical(first) || !canonical(last) {
        return Ok(Some(Fault::without_address(if memory.on_stack() { libc::SIGBUS } else { libc::SIGSEGV })));
    }
    if memory.aligned && !span.address.is_multiple_of(memory.size.into()) {
        return Ok(Some(Fault::without_address(libc::SIGSEGV)));
    }
    let boundary = last & !(PAGE - 1);
    let pages = if first < boundary { vec![first, span.first_from(boundary)] } else { vec![first] };
    // reading also grows the stack, as the access would have
    let present: Vec<bool> = pages.iter().map(|&at| at < END && tracee.read(at, &mut [0]).is_ok()).collect();
    let mappings = Mappings::of(tracee.pid)?;
    Ok(pages.into_iter().zip(present).find_map(|(at, present)| of_page(&mappings, at, present, write)))
}

fn of_page(mappings: &Mappings, address: u64, present: bool, write: bool) -> Option<Fault> {
    let Some(mapping) = mappings.at(address) else {
        return Some(Fault { signal: libc::SIGSEGV, code: SEGV_MAPERR, address });
    };
    let allowed = if write { mapping.writable } else { mapping.readable };
    match (allowed, present) {
        (false, _) => Some(Fault { signal: libc::SIGSEGV, code: SEGV_ACCERR, address }),
        // a mapping that reaches beyond its file
        (true, false) if mapping.name.starts_with('/') => {
            Some(Fault { signal: libc::SIGBUS, code: BUS_ADRERR, address })
        }
        (true, _) => None,
    }
}

/// Bits 47 to 63 are all the same.
fn canonical(address: u64) -> bool {
    (address as i64) << 16 >> 16 == address as i64
}
