//! Forked processes of a test that connect or serve. They are forked from a process with threads, so they may only make
//! system calls and must not allocate memory or take locks.
#![expect(unsafe_code, reason = "fork(2), and sockets without the standard library, which allocates")]

use std::os::fd::RawFd;

/// Kills its process on drop.
pub struct Child(pub u32);

impl Child {
    /// Runs `work` in a new process, which then ends. `work` may only make system calls.
    pub fn fork(work: impl FnOnce()) -> Child {
        // SAFETY: the child makes system calls only, as `work` promises, and never returns.
        match unsafe { libc::fork() } {
            -1 => panic!("cannot fork: {}", std::io::Error::last_os_error()),
            0 => {
                work();
                // SAFETY: ends the process without running exit handlers of the parent.
                unsafe { libc::_exit(0) }
            }
            pid => Child(pid as u32),
        }
    }

    pub fn wait(self) {
        // SAFETY: the pid is that of our child, which was not waited for; the status may be null.
        unsafe { libc::waitpid(self.0 as i32, std::ptr::null_mut(), 0) };
        std::mem::forget(self);
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: the pid is that of our child; it was not waited for, so it is not reused.
        unsafe {
            libc::kill(self.0 as i32, libc::SIGKILL);
            libc::waitpid(self.0 as i32, std::ptr::null_mut(), 0);
        }
    }
}

fn loopback(port: u16) -> libc::sockaddr_in {
    address([127, 0, 0, 1], port)
}

fn address(ip: [u8; 4], port: u16) -> libc::sockaddr_in {
    // SAFETY: all zeros are a valid address.
    let mut address: libc::sockaddr_in = unsafe { std::mem::zeroed() };
    address.sin_family = libc::AF_INET as u16;
    address.sin_port = port.to_be();
    address.sin_addr.s_addr = u32::from_ne_bytes(ip);
    address
}

const LEN: u32 = size_of::<libc::sockaddr_in>() as u32;

/// Connects, waits until the other end closes, closes.
pub fn connect_once(port: u16) {
    let address = loopback(port);
    let mut byte = [0u8; 8];
    // SAFETY: address and buffer are on the stack and of the sizes given.
    unsafe {
        let fd = libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0);
        if libc::connect(fd, (&raw const address).cast(), LEN) == 0 {
            while libc::read(fd, byte.as_mut_ptr().cast(), byte.len()) > 0 {}
        }
        libc::close(fd);
    }
}

/// A listening socket that shares its port with others.
pub fn listen_shared(port: u16) -> RawFd {
    let address = loopback(port);
    let one = 1i32;
    // SAFETY: as above.
    unsafe {
        let fd = libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0);
        libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_REUSEPORT, (&raw const one).cast(), 4);
        libc::bind(fd, (&raw const address).cast(), LEN);
        libc::listen(fd, 128);
        fd
    }
}

/// Answers every connection with this process's pid, until killed.
pub fn serve_pid(listener: RawFd) {
    // SAFETY: the buffer is on the stack and of the size given.
    unsafe {
        let pid = (libc::getpid() as u32).to_ne_bytes();
        loop {
            let fd = libc::accept(listener, std::ptr::null_mut(), std::ptr::null_mut());
            libc::write(fd, pid.as_ptr().cast(), pid.len());
            libc::close(fd);
        }
    }
}

/// Opens connections to itself, writes a byte when all are open, and holds them until killed.
pub fn hold_many(ip: [u8; 4], port: u16, connections: u32, ready: &std::io::PipeWriter) {
    let address = address(ip, port);
    let descriptors = libc::rlim_t::from(connections) * 2 + 100;
    let limit = libc::rlimit { rlim_cur: descriptors, rlim_max: descriptors };
    // SAFETY: as above; `ready` is open.
    unsafe {
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        let listener = libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0);
        if libc::bind(listener, (&raw const address).cast(), LEN) != 0 || libc::listen(listener, 128) != 0 {
            return;
        }
        for _ in 0..connections {
            let client = libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0);
            let connected = libc::connect(client, (&raw const address).cast(), LEN) == 0;
            if !connected || libc::accept(listener, std::ptr::null_mut(), std::ptr::null_mut()) < 0 {
                return;
            }
        }
        libc::write(std::os::fd::AsRawFd::as_raw_fd(ready), [1u8].as_ptr().cast(), 1);
        libc::pause();
    }
}
