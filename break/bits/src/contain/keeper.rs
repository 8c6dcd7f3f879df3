//! The process outside: it waits for the engine, and ends it when nobody wants it any more.
//!
//! The kernel's parent-death signal does not do for the tool: it comes when the *thread* that started a process ends.

use super::Pid;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// How long the engine may take to end by itself after its standard input was closed.
pub const GRACE: std::time::Duration = std::time::Duration::from_secs(2);

/// The process that started this one. None: it is in no namespace that we see.
pub fn starter() -> Option<OwnedFd> {
    // SAFETY: no memory is involved.
    pidfd(unsafe { libc::getppid() }).ok()
}

/// Waits for pid 1 of the namespace and returns its exit status, 128 and the signal if it was killed.
pub fn keep(first: Pid, starter: Option<OwnedFd>) -> io::Result<u8> {
    match until_unwanted(first, starter.as_ref()) {
        // without a way to wait for it, it must not go on either
        Ok(Wanted::No) | Err(_) => kill(first),
        Ok(Wanted::Ended) => (),
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

/// The number outside of a process that the engine started and calls `inner`. `outside` is the process that was started as
/// the engine and keeps it. None: it has ended.
pub fn outer_pid(outside: u32, inner: Pid) -> io::Result<Option<Pid>> {
    let status = |pid: &str| std::fs::read_to_string(format!("/proc/{pid}/status")).ok();
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        let Some(process) = name.to_str().and_then(status) else { continue };
        if innermost(&process) != Some(inner) {
            continue;
        }
        let engine = field(&process, "PPid:").and_then(status);
        if engine.and_then(|engine| field(&engine, "PPid:")?.parse().ok()) == Some(outside) {
            return Ok(Some(pid));
        }
    }
    Ok(None)
}

/// The number outside of a thread that the engine calls `inner`, of a process of which the number outside is known.
pub fn outer_thread(process: Pid, inner: Pid) -> io::Result<Option<Pid>> {
    for entry in std::fs::read_dir(format!("/proc/{process}/task"))? {
        let entry = entry?;
        let Ok(thread) = std::fs::read_to_string(entry.path().join("status")) else { continue };
        if innermost(&thread) == Some(inner) {
            return Ok(entry.file_name().to_str().and_then(|name| name.parse().ok()));
        }
    }
    Ok(None)
}

fn innermost(status: &str) -> Option<Pid> {
    field(status, "NSpid:").and_then(|pids| pids.split_whitespace().last()?.parse().ok())
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

enum Wanted {
    Ended,
    No,
}

fn until_unwanted(first: Pid, starter: Option<&OwnedFd>) -> io::Result<Wanted> {
    let first = pidfd(first)?;
    let watched = |descriptor, events| libc::pollfd { fd: descriptor, events, revents: 0 };
    let mut polled = [
        watched(first.as_raw_fd(), libc::POLLIN),
        watched(starter.map_or(-1, |fd| fd.as_raw_fd()), libc::POLLIN),
        // asks for nothing: only its closing is told, whatever lies in it
        watched(libc::STDIN_FILENO, 0),
    ];
    let mut patience = -1;
    loop {
        // SAFETY: the array outlives the call and has as many elements as is said.
        let ready = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, patience) };
        if ready < 0 && io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return Err(io::Error::last_os_error());
        }
        let [first, starter, input] = &mut polled;
        if first.revents != 0 {
            return Ok(Wanted::Ended);
        }
        if ready == 0 || starter.revents != 0 {
            return Ok(Wanted::No);
        }
        if input.revents != 0 {
            input.fd = -1;
            patience = GRACE.as_millis() as libc::c_int;
        }
    }
}

fn pidfd(pid: Pid) -> io::Result<OwnedFd> {
    // SAFETY: no memory is involved; a descriptor that is returned is new and ours.
    unsafe {
        match libc::syscall(libc::SYS_pidfd_open, pid, 0) {
            -1 => Err(io::Error::last_os_error()),
            descriptor => Ok(OwnedFd::from_raw_fd(descriptor as i32)),
        }
    }
}

fn kill(pid: Pid) {
    // SAFETY: our own child, not waited for yet, so the number is still its.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}
