//! System calls that aya does not provide.
#![expect(unsafe_code, reason = "bpf(2) and membarrier(2) take pointers and numbers that Rust cannot check")]

use super::layout::Plain;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

const MAP_CREATE: i64 = 0;
const MAP_LOOKUP_BATCH: i64 = 24;
const MAP_LOOKUP_AND_DELETE_BATCH: i64 = 25;
const OBJ_GET_INFO_BY_FD: i64 = 15;
const LINK_CREATE: i64 = 28;
const ITER_CREATE: i64 = 33;
const MEMBARRIER_CMD_GLOBAL: i64 = 1;

/// `struct { } batch` of `union bpf_attr`.
#[repr(C)]
#[derive(Default)]
struct BatchRequest {
    in_batch: u64,
    out_batch: u64,
    keys: u64,
    values: u64,
    count: u32,
    map_fd: u32,
    elem_flags: u64,
    flags: u64,
}

/// Reusable buffers for reading a table.
pub struct Batch<K, V> {
    keys: Vec<K>,
    values: Vec<V>,
}

impl<K: Plain, V: Plain> Batch<K, V> {
    pub fn new(entries: usize) -> Batch<K, V> {
        Batch { keys: vec![K::ZERO; entries], values: vec![V::ZERO; entries] }
    }

    /// Passes every entry of a hash table to `each` and deletes it. There must be no concurrent writer.
    pub fn drain(&mut self, table: BorrowedFd<'_>, each: impl FnMut(&K, &V)) -> io::Result<()> {
        self.walk(table, MAP_LOOKUP_AND_DELETE_BATCH, each)
    }

    /// Passes every entry of a hash table to `each`. An entry that moves meanwhile may be passed twice or not at all.
    pub fn read(&mut self, table: BorrowedFd<'_>, each: impl FnMut(&K, &V)) -> io::Result<()> {
        self.walk(table, MAP_LOOKUP_BATCH, each)
    }

    fn walk(&mut self, table: BorrowedFd<'_>, command: i64, mut each: impl FnMut(&K, &V)) -> io::Result<()> {
        // position at which the kernel continues; a hash table uses four bytes of it
        let (mut from, mut next) = ([0u8; 16], [0u8; 16]);
        let mut first = true;
        loop {
            let mut request = BatchRequest {
                in_batch: if first { 0 } else { from.as_mut_ptr() as u64 },
                out_batch: next.as_mut_ptr() as u64,
                keys: self.keys.as_mut_ptr() as u64,
                values: self.values.as_mut_ptr() as u64,
                count: self.keys.len() as u32,
                map_fd: table.as_raw_fd() as u32,
                ..BatchRequest::default()
            };
            // SAFETY: `keys` and `values` hold `count` entries of the table's types, which are plain data.
            let result = unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut request, size_of::<BatchRequest>()) };
            let error = if result < 0 { Some(io::Error::last_os_error()) } else { None };
            match error.as_ref().and_then(io::Error::raw_os_error) {
                // a bucket has more entries than the buffers: nothing was read
                Some(libc::ENOSPC) => {
                    let entries = self.keys.len() * 2;
                    *self = Batch::new(entries);
                    continue;
                }
                None | Some(libc::ENOENT) => {}
                Some(_) => return Err(error.expect("there is a code")),
            }
            for (key, value) in self.keys.iter().zip(&self.values).take(request.count as usize) {
                each(key, value);
            }
            if error.is_some() {
                return Ok(());
            }
            first = false;
            from = next;
        }
    }
}

/// Creates the smallest possible table and drops it, to check whether bpf(2) is permitted.
pub fn create_table() -> io::Result<()> {
    const BPF_MAP_TYPE_ARRAY: u32 = 2;
    // type, size of key, size of value, entries
    let mut request = [BPF_MAP_TYPE_ARRAY, 4, 4, 1];
    // SAFETY: the kernel reads these four members and treats the others as zero.
    owned(unsafe { libc::syscall(libc::SYS_bpf, MAP_CREATE, request.as_mut_ptr(), size_of_val(&request)) }).map(drop)
}

/// Runs an iterator program for each entry of a table and reads what it writes. Up to a million entries are visited
/// without interruption, each exactly once; more are an error.
pub fn visit_entries(program: BorrowedFd<'_>, table: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
    const BPF_TRACE_ITER: u32 = 28;
    /// `link_create` of `union bpf_attr`.
    #[repr(C)]
    struct Link {
        program: u32,
        target: u32,
        kind: u32,
        flags: u32,
        info: u64,
        info_len: u32,
        zero: u32,
    }
    let info = table.as_raw_fd() as u32;
    let mut link = Link {
        program: program.as_raw_fd() as u32,
        target: 0,
        kind: BPF_TRACE_ITER,
        flags: 0,
        info: (&raw const info) as u64,
        info_len: size_of_val(&info) as u32,
        zero: 0,
    };
    // SAFETY: `info` is the map's number, as this kind of iterator requires, and outlives the call.
    let link = owned(unsafe { libc::syscall(libc::SYS_bpf, LINK_CREATE, &raw mut link, size_of::<Link>()) })?;
    // link and flags
    let mut iterator = [link.as_raw_fd() as u32, 0];
    // SAFETY: the kernel reads these two numbers.
    let iterator =
        owned(unsafe { libc::syscall(libc::SYS_bpf, ITER_CREATE, iterator.as_mut_ptr(), size_of_val(&iterator)) })?;
    let mut written = Vec::new();
    std::fs::File::from(iterator).read_to_end(&mut written)?;
    Ok(written)
}

/// The descriptor that a system call returned.
fn owned(result: i64) -> io::Result<OwnedFd> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(result as i32) })
}

/// Waits until every BPF program that was running at the call has ended.
pub fn wait_for_running_programs() {
    // SAFETY: it has no pointer arguments.
    let result = unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) };
    if result < 0 {
        // Not available on kernels with processors reserved for user space. A program runs for microseconds.
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}

/// Run statistics of a program, from `struct bpf_prog_info`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgramStatistics {
    /// In nanoseconds; counted only while `kernel.bpf_stats_enabled` is 1.
    pub run_time_ns: u64,
    pub runs: u64,
    /// Events skipped because the program was already running on the same processor.
    pub recursion_misses: u64,
}

impl ProgramStatistics {
    pub fn add(&mut self, other: &ProgramStatistics) {
        self.run_time_ns += other.run_time_ns;
        self.runs += other.runs;
        self.recursion_misses += other.recursion_misses;
    }
}

pub fn statistics(program: BorrowedFd<'_>) -> io::Result<ProgramStatistics> {
    #[repr(C)]
    struct Request {
        fd: u32,
        len: u32,
        info: u64,
    }
    let mut info = [0u64; 27];
    let mut request =
        Request { fd: program.as_raw_fd() as u32, len: size_of_val(&info) as u32, info: info.as_mut_ptr() as u64 };
    // SAFETY: the kernel writes at most `len` bytes to `info` and reads no pointers in it, because all lengths are
    // zero.
    let result = unsafe { libc::syscall(libc::SYS_bpf, OBJ_GET_INFO_BY_FD, &raw mut request, size_of::<Request>()) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(ProgramStatistics { run_time_ns: info[24], runs: info[25], recursion_misses: info[26] })
}

/// Whether a process with this pid exists.
pub fn exists(pid: u32) -> bool {
    // SAFETY: signal 0 only checks for existence.
    let result = unsafe { libc::kill(pid as i32, 0) };
    result == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}

/// Waits until one of the descriptors is readable.
pub fn wait_readable(fds: [BorrowedFd<'_>; 2]) -> io::Result<[bool; 2]> {
    let mut polled = fds.map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 });
    // SAFETY: the array outlives the call and has two entries.
    let result = unsafe { libc::poll(polled.as_mut_ptr(), 2, -1) };
    match io::Error::last_os_error() {
        error if result < 0 && error.kind() != io::ErrorKind::Interrupted => Err(error),
        _ => Ok(polled.map(|entry| result > 0 && entry.revents != 0)),
    }
}
