//! The engine's children as the kernel reports them: their stops, CPU time and whether they sleep.
#![allow(unsafe_code)] // wait4 and the CPU clock of another process have no checked interface

use process::ProcDir;
use sandbox::tracee::{Pid, Stop};
use std::io;
use std::time::Duration;

/// How often to check whether killed children have ended.
const KILL_CHECK_EVERY: Duration = Duration::from_millis(1);

/// The next report of a child or one of its threads, with the CPU time it used if it has ended. Does not block.
pub fn next_report() -> io::Result<Option<(Pid, Stop, Duration)>> {
    let mut status = 0;
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: both are live; all-zero is a valid rusage.
    let (pid, usage) = unsafe {
        let pid = libc::wait4(-1, &mut status, libc::__WALL | libc::WNOHANG, usage.as_mut_ptr());
        (pid, usage.assume_init())
    };
    match pid {
        0 => Ok(None),
        -1 => match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::ECHILD) => Ok(None),
            error => Err(error),
        },
        pid => Ok(Some((pid, Stop::from_status(status), of_timeval(usage.ru_utime) + of_timeval(usage.ru_stime)))),
    }
}

fn of_timeval(time: libc::timeval) -> Duration {
    Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64)
}

/// Waits until a child reports or the timeout is over. The engine has blocked SIGCHLD, so no report is missed.
pub fn wait_for_a_child(timeout: Duration) {
    let time = libc::timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: i64::from(timeout.subsec_nanos()) };
    // SAFETY: the set is initialized before it is used; no information is requested.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGCHLD);
        libc::sigtimedwait(&set, std::ptr::null_mut(), &time);
    }
}

/// Blocks SIGCHLD in the calling thread, so that it can be waited for.
pub fn block_sigchld() {
    // SAFETY: the set is initialized before it is used.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGCHLD);
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
    }
}

/// CPU time of a process so far. The clock id is derived from its pid (`CPUCLOCK_SCHED` of a process).
pub fn cpu_time(pid: Pid) -> Option<Duration> {
    let clock = (!pid << 3) | 2;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is live.
    let got = unsafe { libc::clock_gettime(clock, &mut time) };
    (got == 0).then(|| Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

/// User and system time of this process and of its children that have ended.
pub fn cpu_seconds() -> f64 {
    [libc::RUSAGE_SELF, libc::RUSAGE_CHILDREN]
        .map(|who| {
            let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
            // SAFETY: the structure is live; all-zero is a valid one.
            let usage = unsafe {
                libc::getrusage(who, usage.as_mut_ptr());
                usage.assume_init()
            };
            (of_timeval(usage.ru_utime) + of_timeval(usage.ru_stime)).as_secs_f64()
        })
        .iter()
        .sum()
}

/// Whether all its threads are in an interruptible sleep or have ended.
pub fn is_asleep(pid: Pid) -> bool {
    let states = ProcDir::open(pid as u32).and_then(|process| process.thread_states());
    states.is_ok_and(|states| states.iter().all(|state| matches!(state, 'S' | 'Z' | 'X')))
}

/// Kills every child, and waits for the end of each.
pub fn kill_all() -> io::Result<()> {
    loop {
        let children = std::fs::read_to_string("/proc/thread-self/children")?;
        let children: Vec<Pid> = children.split_whitespace().filter_map(|pid| pid.parse().ok()).collect();
        if children.is_empty() {
            return Ok(());
        }
        children.iter().for_each(|child| kill(*child));
        // reports of their threads as well, before which the kernel reports no end of a process
        while next_report()?.is_some() {}
        wait_for_a_child(KILL_CHECK_EVERY);
    }
}

/// Kills a child with all its threads.
pub fn kill(process: Pid) {
    // SAFETY: no memory is involved; the process is our own child, not waited for yet.
    unsafe { libc::kill(process, libc::SIGKILL) };
}
