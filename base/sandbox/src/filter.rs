//! The system call filter that programs run under (seccomp, x86-64).
//!
//! A call is allowed, or gets one of three other answers:
//! - *denied* (`EPERM`): it reaches beyond the process;
//! - *traced*: the supervisor decides. The program stops before the call; the supervisor resumes it or calls
//!   [`crate::deny`], or answers the call itself, see [`crate::VirtualHost`];
//! - *unknown* (`ENOSYS`): programs manage without it. These are calls newer than this list, `clone3`, whose flags a
//!   filter cannot read, and `rseq`, into whose memory the kernel writes at any time.
//!
//! The 32-bit calls, which have other numbers, kill the process. Calls that the namespaces make harmless stay allowed:
//! sockets of the internet families (there is no network), System V IPC.

use crate::syscalls::{DENIED, LAST, TRACED, TracedCall, UNKNOWN};
use crate::virtual_host::ANSWERED;
use libc::{
    BPF_ABS, BPF_ALU, BPF_AND, BPF_JEQ, BPF_JGT, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_RET, BPF_W, SECCOMP_RET_ALLOW,
    SECCOMP_RET_ERRNO, SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_TRACE, c_long, sock_filter,
};

/// The sixth argument of `clone(CLONE_PARENT|SIGCHLD)` that marks a fork made by the supervisor, for which the filter
/// does not stop. A program has no reason to pass it; if one did, the supervisor would still get the fork's ptrace
/// event.
pub const FORK_MARK: u64 = u64::from_le_bytes(*b"flipfork");

/// `struct seccomp_data`: number, architecture, address of the instruction, six arguments.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;
/// A 64-bit ELF machine, little-endian: `AUDIT_ARCH_X86_64`.
const X86_64: u32 = libc::EM_X86_64 as u32 | 0x8000_0000 | 0x4000_0000;

/// The program for `SECCOMP_SET_MODE_FILTER`.
pub(super) fn program() -> Vec<sock_filter> {
    let mut filter = vec![load(ARCHITECTURE), jump(BPF_JEQ, X86_64, 1, 0), answer(SECCOMP_RET_KILL_PROCESS)];
    filter.push(load(NUMBER));
    filter.extend([jump(BPF_JGT, LAST as u32, 0, 1), error(libc::ENOSYS)]);
    for &number in DENIED {
        filter.extend(case(number, &[error(libc::EPERM)]));
    }
    for &number in UNKNOWN {
        filter.extend(case(number, &[error(libc::ENOSYS)]));
    }
    for &(number, traced) in TRACED {
        filter.extend(case(number, &[trace(traced)]));
    }
    for number in ANSWERED {
        filter.extend(case(number, &[trace(TracedCall::Answered)]));
    }
    filter.extend(case(libc::SYS_futex, &futex()));
    filter.extend(case(libc::SYS_clone, &clone()));
    filter.extend(case(libc::SYS_socket, &socket()));
    // limits of another process of the same user
    filter.extend(case(libc::SYS_prlimit64, &[low(0), jump(BPF_JEQ, 0, 1, 0), error(libc::EPERM), allow()]));
    filter.push(allow());
    filter
}

/// Threads are allowed and forks traced, except those of the supervisor: another stop would double a fork's cost.
fn clone() -> [sock_filter; 9] {
    let [mark_low, mark_high] = [FORK_MARK as u32, (FORK_MARK >> 32) as u32];
    [
        low(0),
        jump(BPF_JSET, libc::CLONE_THREAD as u32, 5, 0),
        jump(BPF_JEQ, (libc::CLONE_PARENT | libc::SIGCHLD) as u32, 0, 5),
        low(5),
        jump(BPF_JEQ, mark_low, 0, 3),
        high(5),
        jump(BPF_JEQ, mark_high, 0, 1),
        allow(),
        trace(TracedCall::Fork),
    ]
}

/// A wait with a timeout is answered. The others, of which programs with threads make many, are not stopped.
fn futex() -> [sock_filter; 10] {
    let flags = (libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME) as u32;
    [
        low(3),
        jump(BPF_JEQ, 0, 0, 2),
        high(3),
        jump(BPF_JEQ, 0, 4, 0),
        low(1),
        sock_filter { code: (BPF_ALU | BPF_AND | BPF_K) as u16, jt: 0, jf: 0, k: !flags },
        jump(BPF_JEQ, libc::FUTEX_WAIT as u32, 2, 0),
        jump(BPF_JEQ, libc::FUTEX_WAIT_BITSET as u32, 1, 0),
        allow(),
        trace(TracedCall::Answered),
    ]
}

/// A socket in the file system crosses every namespace, to daemons that trust every process that reaches them.
fn socket() -> [sock_filter; 5] {
    let [four, six] = [libc::AF_INET as u32, libc::AF_INET6 as u32];
    [low(0), jump(BPF_JEQ, four, 2, 0), jump(BPF_JEQ, six, 1, 0), error(libc::EACCES), allow()]
}

/// If the call is `number`: runs `body`, which must return an answer on every path.
fn case(number: c_long, body: &[sock_filter]) -> impl Iterator<Item = sock_filter> {
    std::iter::once(jump(BPF_JEQ, number as u32, 0, body.len() as u8)).chain(body.iter().copied())
}

fn load(offset: u32) -> sock_filter {
    sock_filter { code: (BPF_LD | BPF_W | BPF_ABS) as u16, jt: 0, jf: 0, k: offset }
}

/// The lower half of an argument: all that the kernel uses of an `int`.
fn low(argument: u32) -> sock_filter {
    load(ARGUMENTS + 8 * argument)
}

fn high(argument: u32) -> sock_filter {
    load(ARGUMENTS + 8 * argument + 4)
}

/// Skips `yes` or `no` of the following instructions.
fn jump(test: u32, value: u32, yes: u8, no: u8) -> sock_filter {
    sock_filter { code: (BPF_JMP | test | BPF_K) as u16, jt: yes, jf: no, k: value }
}

fn answer(value: u32) -> sock_filter {
    sock_filter { code: (BPF_RET | BPF_K) as u16, jt: 0, jf: 0, k: value }
}

fn allow() -> sock_filter {
    answer(SECCOMP_RET_ALLOW)
}

fn error(number: i32) -> sock_filter {
    answer(SECCOMP_RET_ERRNO | number as u32)
}

fn trace(why: TracedCall) -> sock_filter {
    answer(SECCOMP_RET_TRACE | why as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel does with the program, as classic BPF defines it.
    fn action(number: c_long, arguments: [u64; 6]) -> u32 {
        action_on(X86_64, number, arguments)
    }

    fn action_on(architecture: u32, number: c_long, arguments: [u64; 6]) -> u32 {
        let word = |offset: u32| match offset {
            NUMBER => number as u32,
            ARCHITECTURE => architecture,
            _ => {
                let (index, half) = ((offset - ARGUMENTS) / 8, (offset - ARGUMENTS) % 8);
                (arguments[index as usize] >> (8 * half)) as u32
            }
        };
        let program = program();
        let (mut at, mut register) = (0, 0);
        loop {
            let step = program[at];
            at += 1;
            let code = u32::from(step.code);
            match code & 7 {
                BPF_LD => register = word(step.k),
                BPF_RET => return step.k,
                // only this one is used
                BPF_ALU => register &= step.k,
                _ => {
                    let holds = match code & 0xf0 {
                        BPF_JEQ => register == step.k,
                        BPF_JGT => register > step.k,
                        _ => register & step.k != 0,
                    };
                    at += usize::from(if holds { step.jt } else { step.jf });
                }
            }
        }
    }

    const DENIAL: u32 = SECCOMP_RET_ERRNO | libc::EPERM as u32;

    #[test]
    fn every_listed_call_gets_its_answer_and_ordinary_ones_are_allowed() {
        for &number in DENIED {
            assert_eq!(action(number, [0; 6]), DENIAL, "{number}");
        }
        for &(number, why) in TRACED {
            assert_eq!(action(number, [0; 6]), SECCOMP_RET_TRACE | why as u32, "{number}");
        }
        for number in [libc::SYS_read, libc::SYS_write, libc::SYS_mmap, libc::SYS_futex, libc::SYS_exit_group, LAST] {
            assert_eq!(action(number, [u64::MAX; 6]), SECCOMP_RET_ALLOW, "{number}");
        }
        for number in [libc::SYS_clone3, libc::SYS_rseq, LAST + 1, 0x4000_0000] {
            assert_eq!(action(number, [0; 6]), SECCOMP_RET_ERRNO | libc::ENOSYS as u32, "{number}");
        }
        assert_eq!(action_on(libc::EM_386 as u32 | 0x4000_0000, 20, [0; 6]), SECCOMP_RET_KILL_PROCESS);
    }

    #[test]
    fn only_waits_with_a_timeout_stop_at_a_futex() {
        let futex = |operation: i32, timeout: u64| action(libc::SYS_futex, [8, operation as u64, 0, timeout, 0, 0]);
        let answered = SECCOMP_RET_TRACE | TracedCall::Answered as u32;
        for wait in [libc::FUTEX_WAIT, libc::FUTEX_WAIT_BITSET] {
            for flags in [0, libc::FUTEX_PRIVATE_FLAG, libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME] {
                assert_eq!(futex(wait | flags, 1), answered, "{wait} {flags}");
                assert_eq!(futex(wait | flags, 1 << 32), answered, "{wait} {flags}");
                assert_eq!(futex(wait | flags, 0), SECCOMP_RET_ALLOW, "{wait} {flags}");
            }
        }
        for other in [libc::FUTEX_WAKE, libc::FUTEX_WAKE_BITSET, libc::FUTEX_CMP_REQUEUE, libc::FUTEX_LOCK_PI] {
            assert_eq!(futex(other | libc::FUTEX_PRIVATE_FLAG, 1), SECCOMP_RET_ALLOW, "{other}");
        }
    }

    #[test]
    fn only_forks_of_the_supervisor_and_threads_are_not_traced() {
        let clone = |flags: i32, mark: u64| action(libc::SYS_clone, [flags as u64, 0, 0, 0, 0, mark]);
        let fork = libc::CLONE_PARENT | libc::SIGCHLD;
        let traced = SECCOMP_RET_TRACE | TracedCall::Fork as u32;
        assert_eq!(clone(fork, FORK_MARK), SECCOMP_RET_ALLOW);
        assert_eq!(clone(libc::CLONE_VM | libc::CLONE_THREAD, 0), SECCOMP_RET_ALLOW);
        for (flags, mark) in [
            (fork, 0),
            (fork, FORK_MARK ^ 1),
            (fork, FORK_MARK ^ 1 << 63),
            (libc::SIGCHLD, FORK_MARK),
            (fork | libc::CLONE_NEWUSER, FORK_MARK),
        ] {
            assert_eq!(clone(flags, mark), traced, "{flags:x} {mark:x}");
        }
    }

    #[test]
    fn only_internet_sockets_and_own_limits_are_allowed() {
        let socket = |domain: i32| action(libc::SYS_socket, [domain as u64, 0, 0, 0, 0, 0]);
        assert_eq!([socket(libc::AF_INET), socket(libc::AF_INET6)], [SECCOMP_RET_ALLOW; 2]);
        let denied = SECCOMP_RET_ERRNO | libc::EACCES as u32;
        assert_eq!([socket(libc::AF_UNIX), socket(libc::AF_NETLINK), socket(libc::AF_ALG)], [denied; 3]);
        assert_eq!(action(libc::SYS_prlimit64, [0; 6]), SECCOMP_RET_ALLOW);
        assert_eq!(action(libc::SYS_prlimit64, [1, 0, 0, 0, 0, 0]), DENIAL);
    }
}
