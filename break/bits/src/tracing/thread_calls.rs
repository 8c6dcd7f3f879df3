//! What a system call means for scheduling: whether it waits, wakes others, or is made at all.

use sandbox::tracee::{Registers, Tracee};
use std::time::Duration;

/// A system call of one thread among several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ThreadCall {
    /// Made as it is: it does not wait for another thread.
    Proceed,
    Sleep(Deadline),
    /// Waits for a wake-up if `word` holds `value`; otherwise it is made and returns at once.
    Wait {
        word: u64,
        value: u32,
        bits: u32,
        until: Option<Deadline>,
    },
    Wake {
        word: u64,
        bits: u32,
        max: u64,
    },
    /// With `value`: only if `word` holds it.
    Requeue {
        word: u64,
        value: Option<u32>,
        max: u64,
        to: u64,
        moved: u64,
    },
    Yield,
    EndsThread,
    EndsProcess,
    /// Cannot be emulated, for this reason.
    Unsupported(&'static str),
}

/// When a thread stops waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadline {
    After(Duration),
    /// When this clock shows this time.
    AtClock(libc::clockid_t, Duration),
}

impl ThreadCall {
    /// The call before which a thread is stopped.
    pub fn of(tracee: &Tracee, registers: &Registers) -> ThreadCall {
        let time = |at: u64| timespec(tracee, at);
        match registers.rax as i64 {
            libc::SYS_futex => futex(registers, time),
            libc::SYS_nanosleep => {
                time(registers.rdi).map_or(ThreadCall::Proceed, |time| ThreadCall::Sleep(Deadline::After(time)))
            }
            libc::SYS_clock_nanosleep => {
                let absolute = registers.rsi as i32 & libc::TIMER_ABSTIME != 0;
                let clock = registers.rdi as libc::clockid_t;
                let until = |time| if absolute { Deadline::AtClock(clock, time) } else { Deadline::After(time) };
                time(registers.rdx).map_or(ThreadCall::Proceed, |time| ThreadCall::Sleep(until(time)))
            }
            libc::SYS_sched_yield => ThreadCall::Yield,
            libc::SYS_exit => ThreadCall::EndsThread,
            libc::SYS_exit_group => ThreadCall::EndsProcess,
            SYS_FUTEX_WAITV | SYS_FUTEX_WAKE | SYS_FUTEX_WAIT | SYS_FUTEX_REQUEUE => {
                ThreadCall::Unsupported("its threads wait by a system call that is newer than futex")
            }
            _ => ThreadCall::Proceed,
        }
    }
}

const SYS_FUTEX_WAITV: i64 = 449;
const SYS_FUTEX_WAKE: i64 = 454;
const SYS_FUTEX_WAIT: i64 = 455;
const SYS_FUTEX_REQUEUE: i64 = 456;

fn futex(registers: &Registers, time: impl Fn(u64) -> Option<Duration>) -> ThreadCall {
    let &Registers { rdi: word, rsi: operation, rdx, r10, r8, r9, .. } = registers;
    let value = rdx as u32;
    // a count of threads is an int; kernels treat a negative one as none or one
    let count = |number: u64| (number as i32).max(1) as u64;
    let clock =
        if operation as i32 & libc::FUTEX_CLOCK_REALTIME != 0 { libc::CLOCK_REALTIME } else { libc::CLOCK_MONOTONIC };
    if word % 4 != 0 {
        return ThreadCall::Proceed;
    }
    match operation as i32 & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME) {
        libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET if r10 != 0 && time(r10).is_none() => ThreadCall::Proceed,
        libc::FUTEX_WAIT => ThreadCall::Wait { word, value, bits: u32::MAX, until: time(r10).map(Deadline::After) },
        libc::FUTEX_WAIT_BITSET | libc::FUTEX_WAKE_BITSET if r9 as u32 == 0 => ThreadCall::Proceed,
        libc::FUTEX_WAIT_BITSET => ThreadCall::Wait {
            word,
            value,
            bits: r9 as u32,
            until: time(r10).map(|time| Deadline::AtClock(clock, time)),
        },
        libc::FUTEX_WAKE => ThreadCall::Wake { word, bits: u32::MAX, max: count(rdx) },
        libc::FUTEX_WAKE_BITSET => ThreadCall::Wake { word, bits: r9 as u32, max: count(rdx) },
        kind @ (libc::FUTEX_REQUEUE | libc::FUTEX_CMP_REQUEUE) => {
            let value = (kind == libc::FUTEX_CMP_REQUEUE).then_some(r9 as u32);
            let [max, moved] = [rdx, r10].map(|number| (number as i32).max(0) as u64);
            ThreadCall::Requeue { word, value, max, to: r8, moved }
        }
        libc::FUTEX_WAKE_OP => ThreadCall::Unsupported("its threads wake each other by FUTEX_WAKE_OP"),
        _ => ThreadCall::Unsupported("its threads use locks that the kernel owns (priority inheritance)"),
    }
}

pub fn timespec(tracee: &Tracee, at: u64) -> Option<Duration> {
    let (seconds, nanos) = (tracee.read_u64(at).ok()?, tracee.read_u64(at.wrapping_add(8)).ok()?);
    let fits = at != 0 && nanos < 1_000_000_000 && i64::try_from(seconds).is_ok();
    fits.then(|| Duration::new(seconds, nanos as u32))
}

/// The current time of a clock.
pub fn clock_time(clock: libc::clockid_t) -> Duration {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure outlives the call.
    #[allow(unsafe_code)] // reading an arbitrary clock has no checked interface
    let got = unsafe { libc::clock_gettime(clock, &mut now) };
    if got == 0 { Duration::new(now.tv_sec as u64, now.tv_nsec as u32) } else { Duration::ZERO }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandbox::tracee::no_registers;

    const WORD: u64 = 0x1000;
    const TIME: u64 = 0x2000;

    fn call(operation: i32, [value, fourth, fifth, sixth]: [u64; 4]) -> ThreadCall {
        let operation = (operation | libc::FUTEX_PRIVATE_FLAG) as u64;
        let registers =
            Registers { rdi: WORD, rsi: operation, rdx: value, r10: fourth, r8: fifth, r9: sixth, ..no_registers() };
        futex(&registers, |at| (at == TIME).then_some(Duration::from_secs(3)))
    }

    #[test]
    fn waits_have_a_word_bits_and_a_deadline() {
        let wait = |bits, until| ThreadCall::Wait { word: WORD, value: 7, bits, until };
        assert_eq!(call(libc::FUTEX_WAIT, [7, 0, 0, 0]), wait(u32::MAX, None));
        let after = Deadline::After(Duration::from_secs(3));
        assert_eq!(call(libc::FUTEX_WAIT, [7, TIME, 0, 0]), wait(u32::MAX, Some(after)));
        let until = |clock| Deadline::AtClock(clock, Duration::from_secs(3));
        let monotonic = until(libc::CLOCK_MONOTONIC);
        assert_eq!(call(libc::FUTEX_WAIT_BITSET, [7, TIME, 0, 5]), wait(5, Some(monotonic)));
        let realtime = libc::FUTEX_WAIT_BITSET | libc::FUTEX_CLOCK_REALTIME;
        assert_eq!(call(realtime, [7, TIME, 0, 5]), wait(5, Some(until(libc::CLOCK_REALTIME))));
    }

    #[test]
    fn calls_that_the_kernel_refuses_are_made() {
        assert_eq!(call(libc::FUTEX_WAIT, [7, 0x3000, 0, 0]), ThreadCall::Proceed, "no time is there");
        assert_eq!(call(libc::FUTEX_WAIT_BITSET, [7, 0, 0, 0]), ThreadCall::Proceed, "no bits");
        assert_eq!(futex(&Registers { rdi: WORD + 2, ..no_registers() }, |_| None), ThreadCall::Proceed, "not aligned");
    }

    #[test]
    fn a_wake_up_is_of_at_least_one_thread_and_a_move_of_none() {
        let wake = |bits, max| ThreadCall::Wake { word: WORD, bits, max };
        assert_eq!(call(libc::FUTEX_WAKE, [3, 0, 0, 0]), wake(u32::MAX, 3));
        assert_eq!(call(libc::FUTEX_WAKE, [0, 0, 0, 0]), wake(u32::MAX, 1), "as the kernel does");
        assert_eq!(call(libc::FUTEX_WAKE_BITSET, [9, 0, 0, 2]), wake(2, 9));
        let moves = |value| ThreadCall::Requeue { word: WORD, value, max: 0, to: 0x1008, moved: 4 };
        assert_eq!(call(libc::FUTEX_REQUEUE, [0, 4, 0x1008, 7]), moves(None));
        assert_eq!(call(libc::FUTEX_CMP_REQUEUE, [0, 4, 0x1008, 7]), moves(Some(7)));
        assert!(matches!(call(libc::FUTEX_LOCK_PI, [0; 4]), ThreadCall::Unsupported(_)));
    }
}
