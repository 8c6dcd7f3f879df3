//! What a system call is to threads that take turns: does it wait, does it wake others, is it to be made at all?

use crate::tracee::{Registers, Tracee};
use std::time::Duration;

/// Of a thread among several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// To be made as it stands: it does not wait for another thread.
    Made,
    Sleep(Until),
    /// Waits for a wake-up if `word` holds `value`; else it is to be made, and returns.
    Wait {
        word: u64,
        value: u32,
        bits: u32,
        until: Option<Until>,
    },
    Wake {
        word: u64,
        bits: u32,
        most: u64,
    },
    /// With `value`: only if `word` holds it.
    Requeue {
        word: u64,
        value: Option<u32>,
        most: u64,
        to: u64,
        moved: u64,
    },
    Yield,
    EndsThread,
    EndsProcess,
    /// Cannot be followed, in words.
    Unknown(&'static str),
}

/// How long a thread waits at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    After(Duration),
    /// What a clock shows then.
    Shows(libc::clockid_t, Duration),
}

impl Asked {
    /// Of a thread that stands before a system call.
    pub fn of(tracee: &Tracee, registers: &Registers) -> Asked {
        let time = |at: u64| timespec(tracee, at);
        match registers.rax as i64 {
            libc::SYS_futex => futex(registers, time),
            libc::SYS_nanosleep => time(registers.rdi).map_or(Asked::Made, |time| Asked::Sleep(Until::After(time))),
            libc::SYS_clock_nanosleep => {
                let absolute = registers.rsi as i32 & libc::TIMER_ABSTIME != 0;
                let clock = registers.rdi as libc::clockid_t;
                let until = |time| if absolute { Until::Shows(clock, time) } else { Until::After(time) };
                time(registers.rdx).map_or(Asked::Made, |time| Asked::Sleep(until(time)))
            }
            libc::SYS_sched_yield => Asked::Yield,
            libc::SYS_exit => Asked::EndsThread,
            libc::SYS_exit_group => Asked::EndsProcess,
            SYS_FUTEX_WAITV | SYS_FUTEX_WAKE | SYS_FUTEX_WAIT | SYS_FUTEX_REQUEUE => {
                Asked::Unknown("its threads wait by a system call that is newer than futex")
            }
            _ => Asked::Made,
        }
    }
}

const SYS_FUTEX_WAITV: i64 = 449;
const SYS_FUTEX_WAKE: i64 = 454;
const SYS_FUTEX_WAIT: i64 = 455;
const SYS_FUTEX_REQUEUE: i64 = 456;

fn futex(registers: &Registers, time: impl Fn(u64) -> Option<Duration>) -> Asked {
    let &Registers { rdi: word, rsi: operation, rdx, r10, r8, r9, .. } = registers;
    let value = rdx as u32;
    // a number of threads is an int, of which a negative one is none or one, by kernel
    let count = |number: u64| (number as i32).max(1) as u64;
    let clock =
        if operation as i32 & libc::FUTEX_CLOCK_REALTIME != 0 { libc::CLOCK_REALTIME } else { libc::CLOCK_MONOTONIC };
    if word % 4 != 0 {
        return Asked::Made;
    }
    match operation as i32 & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME) {
        libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET if r10 != 0 && time(r10).is_none() => Asked::Made,
        libc::FUTEX_WAIT => Asked::Wait { word, value, bits: u32::MAX, until: time(r10).map(Until::After) },
        libc::FUTEX_WAIT_BITSET | libc::FUTEX_WAKE_BITSET if r9 as u32 == 0 => Asked::Made,
        libc::FUTEX_WAIT_BITSET => {
            Asked::Wait { word, value, bits: r9 as u32, until: time(r10).map(|time| Until::Shows(clock, time)) }
        }
        libc::FUTEX_WAKE => Asked::Wake { word, bits: u32::MAX, most: count(rdx) },
        libc::FUTEX_WAKE_BITSET => Asked::Wake { word, bits: r9 as u32, most: count(rdx) },
        kind @ (libc::FUTEX_REQUEUE | libc::FUTEX_CMP_REQUEUE) => {
            let value = (kind == libc::FUTEX_CMP_REQUEUE).then_some(r9 as u32);
            let [most, moved] = [rdx, r10].map(|number| (number as i32).max(0) as u64);
            Asked::Requeue { word, value, most, to: r8, moved }
        }
        libc::FUTEX_WAKE_OP => Asked::Unknown("its threads wake each other by FUTEX_WAKE_OP"),
        _ => Asked::Unknown("its threads use locks that the kernel owns (priority inheritance)"),
    }
}

pub fn timespec(tracee: &Tracee, at: u64) -> Option<Duration> {
    let (seconds, nanos) = (tracee.read_u64(at).ok()?, tracee.read_u64(at.wrapping_add(8)).ok()?);
    let fits = at != 0 && nanos < 1_000_000_000 && i64::try_from(seconds).is_ok();
    fits.then(|| Duration::new(seconds, nanos as u32))
}

/// What a clock shows.
pub fn shown(clock: libc::clockid_t) -> Duration {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure outlives the call.
    #[allow(unsafe_code)] // a clock of one's choice has no checked interface
    let got = unsafe { libc::clock_gettime(clock, &mut now) };
    if got == 0 { Duration::new(now.tv_sec as u64, now.tv_nsec as u32) } else { Duration::ZERO }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracee::no_registers;

    const WORD: u64 = 0x1000;
    const TIME: u64 = 0x2000;

    fn asked(operation: i32, [value, fourth, fifth, sixth]: [u64; 4]) -> Asked {
        let operation = (operation | libc::FUTEX_PRIVATE_FLAG) as u64;
        let call =
            Registers { rdi: WORD, rsi: operation, rdx: value, r10: fourth, r8: fifth, r9: sixth, ..no_registers() };
        futex(&call, |at| (at == TIME).then_some(Duration::from_secs(3)))
    }

    #[test]
    fn waits_name_their_word_their_bits_and_their_end() {
        let wait = |bits, until| Asked::Wait { word: WORD, value: 7, bits, until };
        assert_eq!(asked(libc::FUTEX_WAIT, [7, 0, 0, 0]), wait(u32::MAX, None));
        let after = Until::After(Duration::from_secs(3));
        assert_eq!(asked(libc::FUTEX_WAIT, [7, TIME, 0, 0]), wait(u32::MAX, Some(after)));
        let until = |clock| Until::Shows(clock, Duration::from_secs(3));
        let monotonic = until(libc::CLOCK_MONOTONIC);
        assert_eq!(asked(libc::FUTEX_WAIT_BITSET, [7, TIME, 0, 5]), wait(5, Some(monotonic)));
        let realtime = libc::FUTEX_WAIT_BITSET | libc::FUTEX_CLOCK_REALTIME;
        assert_eq!(asked(realtime, [7, TIME, 0, 5]), wait(5, Some(until(libc::CLOCK_REALTIME))));
    }

    #[test]
    fn what_the_kernel_refuses_is_left_to_it() {
        assert_eq!(asked(libc::FUTEX_WAIT, [7, 0x3000, 0, 0]), Asked::Made, "no time is there");
        assert_eq!(asked(libc::FUTEX_WAIT_BITSET, [7, 0, 0, 0]), Asked::Made, "no bits");
        assert_eq!(futex(&Registers { rdi: WORD + 2, ..no_registers() }, |_| None), Asked::Made, "not aligned");
    }

    #[test]
    fn wake_ups_are_of_one_thread_at_least_and_moves_of_none() {
        let wake = |bits, most| Asked::Wake { word: WORD, bits, most };
        assert_eq!(asked(libc::FUTEX_WAKE, [3, 0, 0, 0]), wake(u32::MAX, 3));
        assert_eq!(asked(libc::FUTEX_WAKE, [0, 0, 0, 0]), wake(u32::MAX, 1), "as the kernel does");
        assert_eq!(asked(libc::FUTEX_WAKE_BITSET, [9, 0, 0, 2]), wake(2, 9));
        let moves = |value| Asked::Requeue { word: WORD, value, most: 0, to: 0x1008, moved: 4 };
        assert_eq!(asked(libc::FUTEX_REQUEUE, [0, 4, 0x1008, 7]), moves(None));
        assert_eq!(asked(libc::FUTEX_CMP_REQUEUE, [0, 4, 0x1008, 7]), moves(Some(7)));
        assert!(matches!(asked(libc::FUTEX_LOCK_PI, [0; 4]), Asked::Unknown(_)));
    }
}
