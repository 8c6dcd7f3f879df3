//! What a program reads of its host and of the time: the same in every run.
//!
//! The filter stops a program before calls whose results differ from run to run: clocks, sleeps, waits with a timeout,
//! random numbers, ids, processors, memory, resource usage. The supervisor answers them from a [`VirtualHost`], of
//! which a fork gets a copy. Together with the fixed initial stack (`entry_state`), fixed random devices (`view`) and a
//! time stamp counter that traps, the path of a program with one thread depends on its input alone. The exceptions are
//! in docs/decisions/0038-same-surroundings-in-every-run.md.
//!
//! Time is virtual: each reading of a clock takes a microsecond, and a sleep ends at once and takes its whole time. A
//! program that starts kernel threads gets the real clocks from then on, because its threads wait in the kernel, in
//! real time. The replay shim answers most of these calls within the program, with its own virtual clock.

use crate::syscalls::TracedCall;
use crate::tracee::{Pid, Registers, Stop, Tracee};
use model::random::Random;
use std::fs::{File, FileTimes};
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// The process id that a program reads, also as that of its first thread, of its session and of its process group. The
/// C library knows the thread by its real id, because the kernel writes that into locks.
pub const PROCESS: u64 = 1000;
const PARENT: u64 = 999;
/// 14 November 2023, as under the replay shim. The time since 1970 at which programs start.
const WALL_START: Duration = Duration::from_secs(1_700_000_000);
/// A program with threads gets the real clocks from its first thread on. Few hosts have run for less time than this, so
/// this clock then moves forward, unless the program has slept before.
const MONOTONIC_START: Duration = Duration::from_secs(10);
/// So that a loop that waits for a later time ends.
const READING: Duration = Duration::from_micros(1);
/// Longer sleeps take this long.
const LONGEST: Duration = Duration::from_secs(1 << 32);
/// A larger request gets fewer bytes, as the kernel permits.
const RANDOM_BYTES_MAX: u64 = 1 << 20;
const MEMORY_BYTES: u64 = 4 << 30;

/// Calls before which a program stops for an answer. So does `futex`, if it waits with a timeout.
pub const ANSWERED: [libc::c_long; 25] = [
    libc::SYS_clock_gettime,
    libc::SYS_gettimeofday,
    libc::SYS_time,
    libc::SYS_times,
    libc::SYS_getrusage,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_select,
    libc::SYS_pselect6,
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_getrandom,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getppid,
    libc::SYS_getpgrp,
    libc::SYS_getpgid,
    libc::SYS_getsid,
    libc::SYS_setsid,
    libc::SYS_getcpu,
    libc::SYS_sched_getaffinity,
    libc::SYS_sysinfo,
];

/// The state from which calls are answered. A fork of a program continues with a copy.
#[derive(Clone, Debug)]
pub struct VirtualHost {
    /// Time since the start.
    now: Duration,
    random: Random,
    /// Kernel threads that it starts end at once: the replay shim turns them into virtual ones.
    threads_end: bool,
    has_threads: bool,
}

/// What follows a stop before a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The call is skipped, or made as it is.
    Resume,
    /// The call is made. When it has returned, [`VirtualHost::after_call`] must get this.
    Finish(AfterCall),
}

/// What the supervisor does when a call that waits has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AfterCall {
    /// If the call reports nothing, this time has passed.
    waited: Duration,
    /// The program's own arguments, which are put back.
    rdx: u64,
    r10: u64,
    /// The time in the program's memory that was replaced, which is put back as well.
    replaced: Option<ReplacedTime>,
}

/// A time in the program's memory, in place of which the kernel got zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ReplacedTime {
    at: u64,
    bytes: [u8; 16],
    /// The call writes the time that is left: none, if it reports nothing. Otherwise it leaves the time unchanged.
    is_updated: bool,
}

impl VirtualHost {
    /// `is_replay`: the program runs under the replay shim.
    pub fn new(is_replay: bool) -> VirtualHost {
        VirtualHost { now: Duration::ZERO, random: Random(1), threads_end: is_replay, has_threads: false }
    }

    /// The program has started a kernel thread.
    pub fn thread_started(&mut self) {
        self.has_threads |= !self.threads_end;
    }

    /// Whether it has started a kernel thread that stays.
    pub fn has_threads(&self) -> bool {
        self.has_threads
    }

    /// Answers the call before which `thread` of `process` is stopped.
    pub fn answer(&mut self, thread: &Tracee, process: Pid) -> io::Result<Answer> {
        let registers = thread.registers()?;
        let call = registers.orig_rax as libc::c_long;
        let is_first = thread.pid == process;
        let result = match call {
            libc::SYS_getpid => Ok(PROCESS),
            libc::SYS_gettid if is_first => Ok(PROCESS),
            libc::SYS_getppid => Ok(PARENT),
            libc::SYS_getpgrp => Ok(PROCESS),
            libc::SYS_getpgid | libc::SYS_getsid if [0, PROCESS].contains(&registers.rdi) => Ok(PROCESS),
            // it leads its process group already
            libc::SYS_setsid => Err(libc::EPERM),
            libc::SYS_gettid | libc::SYS_getpgid | libc::SYS_getsid => {
                return Ok(Answer::Resume);
            }
            libc::SYS_getcpu => write_all(thread, &[(registers.rdi, &[0; 4]), (registers.rsi, &[0; 4])]),
            libc::SYS_sched_getaffinity if registers.rsi < 8 => Err(libc::EINVAL),
            libc::SYS_sched_getaffinity => write(thread, registers.rdx, &1u64.to_le_bytes()).map(|_| 8),
            libc::SYS_sysinfo => write(thread, registers.rdi, &system_information()),
            libc::SYS_getrandom => self.random_bytes(thread, registers.rdi, registers.rsi),
            // its threads wait in real time
            _ if self.has_threads => return Ok(Answer::Resume),
            libc::SYS_poll => return self.wait(thread, &registers, milliseconds(registers.rdx)),
            libc::SYS_epoll_wait | libc::SYS_epoll_pwait => {
                return self.wait(thread, &registers, milliseconds(registers.r10));
            }
            libc::SYS_ppoll => return self.wait_until(thread, registers.rdx, NANOSECONDS),
            libc::SYS_epoll_pwait2 => return self.wait_until(thread, registers.r10, NANOSECONDS),
            libc::SYS_pselect6 => return self.wait_until(thread, registers.r8, NANOSECONDS),
            libc::SYS_select => return self.wait_until(thread, registers.r8, MICROSECONDS),
            _ => self.time_call(thread, &registers),
        };
        let result = result.unwrap_or_else(|error| -i64::from(error) as u64);
        // no call has this number: the kernel skips it and keeps rax
        thread.set_registers(&Registers { orig_rax: u64::MAX, rax: result, ..registers })?;
        Ok(Answer::Resume)
    }

    /// The registers after a call of `thread` that [`Answer::Finish`] was returned for. Restores the program's memory.
    pub fn after_call(&mut self, thread: &Tracee, after: AfterCall, registers: &Registers) -> Registers {
        let reports_nothing = registers.rax == 0;
        if reports_nothing {
            self.now += after.waited;
        }
        if let Some(time) = after.replaced.filter(|time| !(reports_nothing && time.is_updated)) {
            // it was writable before the call
            let _ = write(thread, time.at, &time.bytes);
        }
        Registers { rdx: after.rdx, r10: after.r10, ..*registers }
    }

    /// Executes the instruction at which a thread was stopped by SIGSEGV if it reads the time stamp counter. Returns
    /// whether it does.
    pub fn emulate_counter(&mut self, thread: &Tracee) -> io::Result<bool> {
        let registers = thread.registers()?;
        match self.counter_read(thread, &registers) {
            Some(after) => thread.set_registers(&after).map(|()| true),
            None => Ok(false),
        }
    }

    /// The registers after the instruction at the instruction pointer, if that reads the time stamp counter. A tick is
    /// a nanosecond.
    pub fn counter_read(&mut self, thread: &Tracee, registers: &Registers) -> Option<Registers> {
        let mut code = [0; 3];
        let read = thread.read_some(registers.rip, &mut code);
        let length = match code {
            [0x0f, 0x31, _] if read >= 2 => 2,
            [0x0f, 0x01, 0xf9] if read == 3 => 3,
            _ => return None,
        };
        self.now += READING;
        let ticks = (MONOTONIC_START + self.now).as_nanos() as u64;
        let (rax, rdx) = (ticks & 0xffff_ffff, ticks >> 32);
        let rcx = if length == 3 { 0 } else { registers.rcx };
        Some(Registers { rip: registers.rip + length, rax, rdx, rcx, ..*registers })
    }

    fn time_call(&mut self, thread: &Tracee, registers: &Registers) -> Result<u64, i32> {
        match registers.orig_rax as libc::c_long {
            libc::SYS_clock_gettime => {
                let time = self.read(registers.rdi as libc::clockid_t);
                write(thread, registers.rsi, &pair(time.as_secs(), time.subsec_nanos()))
            }
            libc::SYS_gettimeofday => {
                let time = self.read(libc::CLOCK_REALTIME);
                let zone = [0; 8];
                write_all(
                    thread,
                    &[(registers.rdi, &pair(time.as_secs(), time.subsec_micros())), (registers.rsi, &zone)],
                )
            }
            libc::SYS_time => {
                let seconds = self.read(libc::CLOCK_REALTIME).as_secs();
                write_all(thread, &[(registers.rdi, &seconds.to_le_bytes())]).map(|_| seconds)
            }
            libc::SYS_times => {
                let ticks = self.read(libc::CLOCK_MONOTONIC).as_millis() as u64 / 10;
                write_all(thread, &[(registers.rdi, &[0; 32])]).map(|_| ticks)
            }
            libc::SYS_futex => self.timed_wait(thread, registers),
            libc::SYS_getrusage => write(thread, registers.rsi, &[0; 144]),
            libc::SYS_nanosleep => {
                self.now += time_at(thread, registers.rdi, NANOSECONDS)?;
                Ok(0)
            }
            libc::SYS_clock_nanosleep => {
                let time = time_at(thread, registers.rdx, NANOSECONDS)?;
                let passes = match registers.rsi as i32 & libc::TIMER_ABSTIME {
                    0 => time,
                    _ => time.saturating_sub(start(registers.rdi as libc::clockid_t) + self.now),
                };
                self.now += passes.min(LONGEST);
                Ok(0)
            }
            _ => Err(libc::ENOSYS),
        }
    }

    /// `FUTEX_WAIT` and `FUTEX_WAIT_BITSET` with a timeout. The program has one thread, so nothing ends the wait early.
    fn timed_wait(&mut self, thread: &Tracee, registers: &Registers) -> Result<u64, i32> {
        let &Registers { rdi: word, rsi: operation, rdx: value, r10: until, r9: bits, .. } = registers;
        let time = time_at(thread, until, NANOSECONDS)?;
        let is_relative = operation as i32 & FUTEX_OPERATION == libc::FUTEX_WAIT;
        if word % 4 != 0 || (!is_relative && bits as u32 == 0) {
            return Err(libc::EINVAL);
        }
        let mut now = [0; 4];
        thread.read(word, &mut now).map_err(|_| libc::EFAULT)?;
        if u32::from_le_bytes(now) != value as u32 {
            return Err(libc::EAGAIN);
        }
        let clock = match operation as i32 & libc::FUTEX_CLOCK_REALTIME {
            0 => libc::CLOCK_MONOTONIC,
            _ => libc::CLOCK_REALTIME,
        };
        let passes = if is_relative { time } else { time.saturating_sub(start(clock) + self.now) };
        self.now += passes.min(LONGEST);
        Err(libc::ETIMEDOUT)
    }

    fn read(&mut self, clock: libc::clockid_t) -> Duration {
        self.now += READING;
        start(clock) + self.now
    }

    fn random_bytes(&mut self, thread: &Tracee, into: u64, bytes: u64) -> Result<u64, i32> {
        let bytes = bytes.min(RANDOM_BYTES_MAX);
        write(thread, into, &fixed_bytes(&mut self.random, bytes as usize)).map(|_| bytes)
    }

    /// A call that waits at most `time`: it is made without waiting. None: it waits for as long as it takes.
    fn wait(&mut self, thread: &Tracee, registers: &Registers, time: Option<Duration>) -> io::Result<Answer> {
        let Some(time) = time.filter(|time| !time.is_zero()) else { return Ok(Answer::Resume) };
        let without = match registers.orig_rax as libc::c_long {
            libc::SYS_poll => Registers { rdx: 0, ..*registers },
            _ => Registers { r10: 0, ..*registers },
        };
        thread.set_registers(&without)?;
        Ok(Answer::Finish(AfterCall { waited: time, rdx: registers.rdx, r10: registers.r10, replaced: None }))
    }

    /// The same with the time in memory.
    fn wait_until(&mut self, thread: &Tracee, at: u64, unit: u32) -> io::Result<Answer> {
        let Some(time) = (at != 0).then(|| time_at(thread, at, unit).ok()).flatten() else {
            return Ok(Answer::Resume);
        };
        let mut bytes = [0; 16];
        if time.is_zero() || thread.read(at, &mut bytes).is_err() || write(thread, at, &[0; 16]).is_err() {
            return Ok(Answer::Resume);
        }
        let Registers { rdx, r10, orig_rax, .. } = thread.registers()?;
        let is_updated = orig_rax as libc::c_long != libc::SYS_epoll_pwait2;
        let replaced = Some(ReplacedTime { at, bytes, is_updated });
        Ok(Answer::Finish(AfterCall { waited: time, rdx, r10, replaced }))
    }
}

/// Handles a stop of `thread` for a call that [`TracedCall::Answered`] names, and completes the call if need be.
/// Returns the stop that ended it, if that is not the completed call: the caller handles it instead of resuming.
pub fn answer_and_complete(host: &mut VirtualHost, thread: &Tracee, process: Pid) -> io::Result<Option<Stop>> {
    let Answer::Finish(after) = host.answer(thread, process)? else { return Ok(None) };
    let stop = thread.step()?;
    if !stop.ended() {
        let registers = thread.registers()?;
        thread.set_registers(&host.after_call(thread, after, &registers))?;
    }
    Ok(Some(stop).filter(|stop| !stop.trapped()))
}

/// The registers with which a program signals itself, if it names itself by its virtual ids.
pub(crate) fn with_real_ids(registers: &Registers, process: Pid) -> Registers {
    let real = |id: u64| if id as u32 == PROCESS as u32 { process as u64 } else { id };
    let names_thread = registers.orig_rax as libc::c_long == libc::SYS_tgkill
        || registers.orig_rax as libc::c_long == libc::SYS_rt_tgsigqueueinfo;
    let rsi = if names_thread { real(registers.rsi) } else { registers.rsi };
    Registers { rdi: real(registers.rdi), rsi, ..*registers }
}

/// The content of random devices and the results of `getrandom`.
pub(crate) fn fixed_bytes(random: &mut Random, bytes: usize) -> Vec<u8> {
    (0..bytes.div_ceil(8)).flat_map(|_| random.number().to_le_bytes()).take(bytes).collect()
}

fn start(clock: libc::clockid_t) -> Duration {
    match clock {
        libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE | libc::CLOCK_REALTIME_ALARM | libc::CLOCK_TAI => WALL_START,
        libc::CLOCK_MONOTONIC
        | libc::CLOCK_MONOTONIC_RAW
        | libc::CLOCK_MONOTONIC_COARSE
        | libc::CLOCK_BOOTTIME
        | libc::CLOCK_BOOTTIME_ALARM => MONOTONIC_START,
        // CPU time
        _ => Duration::ZERO,
    }
}

/// Without its flags.
const FUTEX_OPERATION: i32 = !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME);

const NANOSECONDS: u32 = 1;
const MICROSECONDS: u32 = 1000;

/// Reads a `timespec`, or a `timeval` if `unit` is a microsecond.
fn time_at(thread: &Tracee, at: u64, unit: u32) -> Result<Duration, i32> {
    let word = |at: u64| thread.read_u64(at).map_err(|_| libc::EFAULT);
    let (seconds, parts) = (word(at)?, word(at.wrapping_add(8))?);
    if i64::try_from(seconds).is_err() || parts >= u64::from(1_000_000_000 / unit) {
        return Err(libc::EINVAL);
    }
    Ok(Duration::new(seconds.min(LONGEST.as_secs()), parts as u32 * unit))
}

fn milliseconds(argument: u64) -> Option<Duration> {
    u64::try_from(argument as i32).ok().map(Duration::from_millis)
}

fn pair(seconds: u64, parts: u32) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&seconds.to_le_bytes());
    bytes[8..12].copy_from_slice(&parts.to_le_bytes());
    bytes
}

/// A `struct sysinfo`: one process, half of the memory free.
fn system_information() -> [u8; 112] {
    let mut bytes = [0; 112];
    for (at, value) in [(0, MONOTONIC_START.as_secs()), (32, MEMORY_BYTES), (40, MEMORY_BYTES / 2)] {
        bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
    bytes[80] = 1; // procs
    bytes[104] = 1; // mem_unit
    bytes
}

/// Writes memory of the program on its behalf. The error is the number that the program would get from the kernel, also
/// where memory is read-only.
fn write(thread: &Tracee, at: u64, bytes: &[u8]) -> Result<u64, i32> {
    thread.write_as_itself(at, bytes).map(|()| 0).map_err(|_| libc::EFAULT)
}

/// The same for pointers that may be null.
fn write_all(thread: &Tracee, parts: &[(u64, &[u8])]) -> Result<u64, i32> {
    parts.iter().filter(|(at, _)| *at != 0).try_for_each(|(at, bytes)| write(thread, *at, bytes).map(drop))?;
    Ok(0)
}

/// Sets both times of a file to the moment at which programs start.
pub fn set_start_time(file: &Path) -> io::Result<()> {
    let start = SystemTime::UNIX_EPOCH + WALL_START;
    File::open(file)?.set_times(FileTimes::new().set_accessed(start).set_modified(start))
}

/// Whether a stop before a call is one that a [`VirtualHost`] answers.
pub fn is_answered(thread: &Tracee) -> io::Result<bool> {
    Ok(TracedCall::from_message(thread.event_message()?) == Some(TracedCall::Answered))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracee::no_registers;

    #[test]
    fn signals_to_its_virtual_ids_go_to_the_process_itself() {
        let call = |number: libc::c_long, rdi: u64, rsi: u64| {
            let to = with_real_ids(&Registers { orig_rax: number as u64, rdi, rsi, ..no_registers() }, 7);
            (to.rdi, to.rsi)
        };
        assert_eq!(call(libc::SYS_tgkill, PROCESS, PROCESS), (7, 7));
        assert_eq!(call(libc::SYS_tgkill, PROCESS, 9), (7, 9), "another thread");
        assert_eq!(call(libc::SYS_kill, PROCESS, 6), (7, 6));
        assert_eq!(call(libc::SYS_kill, 8, PROCESS), (8, PROCESS), "the second argument is a signal");
        assert_eq!(call(libc::SYS_kill, -(PROCESS as i64) as u64, 6).0, -(PROCESS as i64) as u64, "a process group");
    }

    #[test]
    fn a_wait_takes_its_time_only_if_nothing_happened() {
        let mut host = VirtualHost::new(false);
        let thread = Tracee::new(std::process::id() as Pid).expect("this process has memory");
        let after = AfterCall { waited: Duration::from_secs(3), rdx: 7, r10: 8, replaced: None };
        let registers = host.after_call(&thread, after, &Registers { rax: 1, ..no_registers() });
        assert_eq!((host.now, registers.rdx, registers.r10), (Duration::ZERO, 7, 8));
        host.after_call(&thread, after, &no_registers());
        assert_eq!(host.now, Duration::from_secs(3));
    }

    #[test]
    fn a_replaced_time_is_restored_unless_the_call_would_leave_none() {
        let mut host = VirtualHost::new(false);
        let thread = Tracee::new(std::process::id() as Pid).expect("this process has memory");
        for (is_updated, rax, expected) in [(true, 0, 0), (true, 1, 3), (false, 0, 3), (false, 1, 3)] {
            let mut time = [0u8; 16];
            let replaced = ReplacedTime { at: &raw mut time as u64, bytes: [3; 16], is_updated };
            let after = AfterCall { waited: Duration::from_secs(3), rdx: 7, r10: 8, replaced: Some(replaced) };
            host.after_call(&thread, after, &Registers { rax, ..no_registers() });
            // written by the kernel, which the compiler does not know
            assert_eq!(std::hint::black_box(&time), &[expected; 16], "{is_updated} {rax}");
        }
    }

    #[test]
    fn clocks_differ_by_their_start_and_advance_with_each_reading() {
        let mut host = VirtualHost::new(false);
        let [wall, monotonic, cpu] =
            [libc::CLOCK_REALTIME, libc::CLOCK_MONOTONIC, libc::CLOCK_PROCESS_CPUTIME_ID].map(|clock| host.read(clock));
        assert_eq!(wall, WALL_START + READING);
        assert_eq!(monotonic, MONOTONIC_START + 2 * READING);
        assert_eq!(cpu, 3 * READING);
    }
}
