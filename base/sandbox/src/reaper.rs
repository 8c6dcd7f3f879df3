//! The process outside the namespaces: it waits for the supervisor, and kills it when the tool has died or given it up.
//!
//! The kernel's parent-death signal does not work for the tool: it is sent when the *thread* that started a process
//! ends.

use crate::tracee::Pid;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// How long the supervisor may take to end by itself after its standard input was closed.
pub const GRACE: std::time::Duration = std::time::Duration::from_secs(2);

/// The process that started this one. None: it is in no namespace that is visible from here.
pub fn starter() -> Option<OwnedFd> {
    // SAFETY: no memory is involved.
    pidfd(unsafe { libc::getppid() }).ok()
}

/// Waits for pid 1 of the namespace and returns its exit status, or 128 plus the signal if it was killed.
pub fn reap(first: Pid, starter: Option<OwnedFd>) -> io::Result<u8> {
    match wait_until_unneeded(first, starter.as_ref()) {
        // if it cannot be watched, it must not go on either
        Ok(Reason::Abandoned) | Err(_) => kill(first),
        Ok(Reason::Ended) => (),
    }
    let mut status = 0;
    // SAFETY: `status` outlives the call.
    while unsafe { libc::waitpid(first, &mut status, 0) } < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    Ok(match libc::WIFEXITED(status) {
        true => libc::WEXITSTATUS(status) as u8,
        false => 128 + libc::WTERMSIG(status) as u8,
    })
}

enum Reason {
    Ended,
    /// The tool has ended, or has closed standard input and the grace period is over.
    Abandoned,
}

fn wait_until_unneeded(first: Pid, starter: Option<&OwnedFd>) -> io::Result<Reason> {
    let first = pidfd(first)?;
    let watched = |descriptor, events| libc::pollfd { fd: descriptor, events, revents: 0 };
    let mut polled = [
        watched(first.as_raw_fd(), libc::POLLIN),
        watched(starter.map_or(-1, |fd| fd.as_raw_fd()), libc::POLLIN),
        // no events: only a hangup is reported, not waiting input
        watched(libc::STDIN_FILENO, 0),
    ];
    let mut timeout = -1;
    loop {
        // SAFETY: the array outlives the call and has as many elements as stated.
        let ready = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, timeout) };
        if ready < 0 && io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return Err(io::Error::last_os_error());
        }
        let [first, starter, input] = &mut polled;
        if first.revents != 0 {
            return Ok(Reason::Ended);
        }
        if ready == 0 || starter.revents != 0 {
            return Ok(Reason::Abandoned);
        }
        if input.revents != 0 {
            input.fd = -1;
            timeout = GRACE.as_millis() as libc::c_int;
        }
    }
}

fn pidfd(pid: Pid) -> io::Result<OwnedFd> {
    // SAFETY: no memory is involved; a returned descriptor is new and ours.
    unsafe {
        match libc::syscall(libc::SYS_pidfd_open, pid, 0) {
            -1 => Err(io::Error::last_os_error()),
            descriptor => Ok(OwnedFd::from_raw_fd(descriptor as i32)),
        }
    }
}

fn kill(pid: Pid) {
    // SAFETY: our own child that was not waited for, so the number still refers to it.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}
