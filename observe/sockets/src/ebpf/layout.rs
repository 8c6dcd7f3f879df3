//! Types that the BPF programs share with user space: `bpf/tables.h` and `bpf/non_tcp.h` in Rust.
//!
//! Every type consists of integers and byte arrays without padding, so every byte pattern of its size is valid.
#![expect(unsafe_code, reason = "declares plain data that is copied to and from the kernel byte by byte")]

pub const ACTIVE: u8 = 1;

pub const EXACT: u8 = 1;
pub const LISTENER: u8 = 2;

pub const UDP: u8 = 17;

/// Identifies a process in the kernel.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TaskId {
    /// Nanoseconds since boot.
    pub start_ns: u64,
    pub tgid: u32,
    pub zero: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FlowKey {
    pub start_ns: u64,
    pub tgid: u32,
    pub netns: u32,
    pub active: [u8; 16],
    pub passive: [u8; 16],
    pub port: u16,
    pub protocol: u8,
    pub side: u8,
    pub attribution: u8,
    pub zero: [u8; 3],
}

impl FlowKey {
    pub fn task(&self) -> TaskId {
        TaskId { start_ns: self.start_ns, tgid: self.tgid, zero: 0 }
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowCounts {
    pub opened: u32,
    pub established: u32,
    pub failed: u32,
    pub closed: u32,
    pub adopted: u32,
    pub example_port: u32,
    /// Found open by a comparison.
    pub compared: u32,
    /// Ended after a comparison began and before it reached the socket.
    pub ended: u32,
    pub sent: u64,
    pub received: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    pub cgroup: u64,
    pub comm: [u8; 16],
    pub executable: [u8; 64],
    pub arguments_len: u32,
    pub zero: u32,
    pub arguments: [u8; 256],
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Listener {
    pub start_ns: u64,
    pub tgid: u32,
    pub netns: u32,
    pub address: [u8; 16],
    pub port: u16,
    pub protocol: u16,
    pub zero: u32,
}

impl Listener {
    pub fn task(&self) -> TaskId {
        TaskId { start_ns: self.start_ns, tgid: self.tgid, zero: 0 }
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Control {
    pub epoch: u32,
    pub scan: u32,
    pub wake_at: u32,
    pub zero: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub inserted: u32,
    pub listeners_changed: u32,
}

/// A UDP or Unix socket found by a file scan.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScannedSocket {
    pub inode: u64,
    pub start_ns: u64,
    pub tgid: u32,
    pub netns: u32,
    pub active: [u8; 16],
    pub passive: [u8; 16],
    pub port: u16,
    pub example_port: u16,
    /// [`UDP`], or 0: Unix.
    pub protocol: u8,
    /// [`ACTIVE`], passive (2), or 0 for a listener.
    pub side: u8,
    pub path_len: u8,
    pub zero: u8,
    pub path: [u8; 112],
}

impl ScannedSocket {
    pub fn task(&self) -> TaskId {
        TaskId { start_ns: self.start_ns, tgid: self.tgid, zero: 0 }
    }
}

/// Indices in the table of counters.
#[derive(Clone, Copy, Debug)]
pub enum Counter {
    UnattributedNow,
    LostFlows,
    LostProcesses,
    LostSockets,
    LostListeners,
    ClosedUnseen,
}

/// Plain data: no padding, no pointers, every bit pattern valid.
///
/// # Safety
/// The type must be `repr(C)`, without padding, and consist of integers only.
pub unsafe trait Plain: Copy {
    const ZERO: Self;
}

macro_rules! plain {
    ($($type:ty),*) => {$(
        // SAFETY: repr(C) and integers only; the test below adds up the sizes of the members.
        unsafe impl Plain for $type {
            // SAFETY: zero is valid for every integer.
            const ZERO: Self = unsafe { std::mem::zeroed() };
        }
        // SAFETY: as above.
        unsafe impl aya::Pod for $type {}
    )*};
}
plain!(TaskId, FlowKey, FlowCounts, Process, Listener, Control, Tally, ScannedSocket);

/// The consecutive records that a program wrote. An incomplete last record is dropped.
pub fn records<T: Plain>(bytes: &[u8]) -> impl Iterator<Item = T> {
    bytes.chunks_exact(size_of::<T>()).map(|chunk| {
        // SAFETY: the chunk has the size of T, every byte pattern is valid, and the read needs no alignment.
        unsafe { chunk.as_ptr().cast::<T>().read_unaligned() }
    })
}

// SAFETY: an integer.
unsafe impl Plain for u64 {
    const ZERO: Self = 0;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_no_padding() {
        assert_eq!(size_of::<TaskId>(), 8 + 4 + 4);
        assert_eq!(size_of::<FlowKey>(), 8 + 4 + 4 + 16 + 16 + 2 + 1 + 1 + 1 + 3);
        assert_eq!(size_of::<FlowCounts>(), 8 * 4 + 2 * 8);
        assert_eq!(size_of::<Process>(), 8 + 16 + 64 + 4 + 4 + 256);
        assert_eq!(size_of::<Listener>(), 8 + 4 + 4 + 16 + 2 + 2 + 4);
        assert_eq!(size_of::<Control>(), 4 * 4);
        assert_eq!(size_of::<Tally>(), 2 * 4);
        assert_eq!(size_of::<ScannedSocket>(), 8 + 8 + 4 + 4 + 16 + 16 + 2 + 2 + 4 + 112);
    }
}
