//! Makes the kernel's data on a program's initial stack the same in every run.
//!
//! `AT_RANDOM`'s bytes, from which the C library derives its stack canaries, are fixed. `AT_SYSINFO_EHDR` is hidden, so
//! the program reads clocks by system calls, which can be replayed, instead of by vDSO code. The vDSO stays mapped and
//! provides the supervisor's `syscall` instruction.

use crate::launch::Launched;
use crate::tracee::{Pid, Tracee};
use std::io;

/// The C library skips such an entry.
const AT_IGNORE: u64 = 1;
const SYSCALL: [u8; 2] = [0x0f, 0x05];
/// Bounds arguments and environment, as the kernel does.
const MAX_WORDS: u64 = 1 << 20;
/// Any value works as long as it never changes.
const RANDOM: [u8; 16] = *b"one run as other";

pub(super) fn prepare(pid: Pid) -> io::Result<Launched> {
    let tracee = Tracee::new(pid)?;
    let (mut entry, mut vdso) = (None, None);
    let mut at = auxiliary(&tracee)?;
    for _ in 0..MAX_WORDS {
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
    let entry = entry.ok_or_else(|| io::Error::other("the kernel did not report its entry point (AT_ENTRY)"))?;
    let gadget = gadget(&tracee, vdso)?;
    Ok(Launched { tracee, entry, gadget })
}

/// Address of the auxiliary vector, which follows on the stack: argument count, arguments, 0, environment, 0.
fn auxiliary(tracee: &Tracee) -> io::Result<u64> {
    let stack = tracee.registers()?.rsp;
    let mut at = stack + 8 * (2 + tracee.read_u64(stack)?);
    for _ in 0..MAX_WORDS {
        at += 8;
        if tracee.read_u64(at - 8)? == 0 {
            return Ok(at);
        }
    }
    Err(io::Error::other("its environment has no end"))
}

/// Searches the vDSO first, then all mapped code: the dynamic linker makes system calls, as does a static program.
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

/// The address range of a line of `/proc/PID/maps` if it is readable code. The `[vsyscall]` page cannot be read.
fn executable(line: &str) -> Option<(u64, u64)> {
    let (range, rest) = line.split_once(' ')?;
    let (first, end) = range.split_once('-')?;
    let code = rest.starts_with("r-x") && !line.ends_with("[vsyscall]");
    code.then_some((u64::from_str_radix(first, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
}
