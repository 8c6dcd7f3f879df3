//! What is made the same in every run of a program, at its first instruction: what the kernel has put on its stack.
//!
//! `AT_RANDOM`'s bytes, from which the C library makes its canaries, are fixed. `AT_SYSINFO_EHDR` is hidden: so the program reads
//! clocks by system calls, which can be replayed, and not by code that the kernel has mapped into it. That code stays mapped,
//! and lends the engine its `syscall` instruction.

use super::launch::Launched;
use crate::tracee::{Pid, Tracee};
use std::io;

/// "Nothing": the C library goes on to the next entry.
const AT_IGNORE: u64 = 1;
const SYSCALL: [u8; 2] = [0x0f, 0x05];
/// Arguments and environment, which the kernel bounds as well.
const MOST_WORDS: u64 = 1 << 20;
/// Any will do, if it is always the same.
const RANDOM: [u8; 16] = *b"one run as other";

pub(super) fn prepare(pid: Pid) -> io::Result<Launched> {
    let tracee = Tracee::of(pid)?;
    let (mut entry, mut vdso) = (None, None);
    let mut at = auxiliary(&tracee)?;
    for _ in 0..MOST_WORDS {
        let [kind, value] = [tracee.read_u64(at)?, tracee.read_u64(at + 8)?];
        match kind {
            libc::AT_NULL => break,
            libc::AT_ENTRY => entry = Some(value),
            libc::AT_RANDOM => tracee.write(value, &RANDOM)?,
            libc::AT_SYSINFO_EHDR => {
                vdso = Some(value);
                tracee.write(at, &AT_IGNORE.to_le_bytes())?;
            }
            _ => (),
        }
        at += 16;
    }
    let entry = entry.ok_or_else(|| io::Error::other("the kernel has not told where it begins (AT_ENTRY)"))?;
    let gadget = gadget(&tracee, vdso)?;
    Ok(Launched { tracee, entry, gadget })
}

/// Address of the auxiliary vector, which follows on the stack: argument count, arguments, 0, environment, 0.
fn auxiliary(tracee: &Tracee) -> io::Result<u64> {
    let stack = tracee.registers()?.rsp;
    let mut at = stack + 8 * (2 + tracee.read_u64(stack)?);
    for _ in 0..MOST_WORDS {
        at += 8;
        if tracee.read_u64(at - 8)? == 0 {
            return Ok(at);
        }
    }
    Err(io::Error::other("its environment has no end"))
}

/// In the kernel's own code, else in any that is mapped: the dynamic linker makes system calls, as does a static program.
fn gadget(tracee: &Tracee, vdso: Option<u64>) -> io::Result<u64> {
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", tracee.pid))?;
    let mut code: Vec<(u64, u64)> = maps.lines().filter_map(executable).collect();
    code.sort_by_key(|&(first, _)| Some(first) != vdso);
    for (first, last) in code {
        let mut bytes = vec![0; (last - first) as usize];
        let read = tracee.read_some(first, &mut bytes);
        if let Some(offset) = bytes[..read].windows(2).position(|window| window == SYSCALL) {
            return Ok(first + offset as u64);
        }
    }
    Err(io::Error::other("no syscall instruction is mapped"))
}

/// First address and end of a line of `/proc/PID/maps`, if code is there. The page of old system calls cannot be read.
fn executable(line: &str) -> Option<(u64, u64)> {
    let (range, rest) = line.split_once(' ')?;
    let (first, end) = range.split_once('-')?;
    let code = rest.starts_with("r-x") && !line.ends_with("[vsyscall]");
    code.then_some((u64::from_str_radix(first, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
}
