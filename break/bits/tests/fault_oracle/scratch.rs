//! A process whose memory (one region) and registers are set by the test.
//!
//! ```text
//! page 0 code | 1 loads and stores all vector registers | 2 read only | 3 no access | 4 nothing | 5-6 data | 7 nothing
//!   | 8-23 data, which pointers point into | 24 read only | 25 data | 26 no access | 27 data
//!   | 28 a file's missing page | 29 traps, to jump to | 30 vector registers to load | 31 vector registers as they were
//! ```

use sandbox::tracee::{Registers, Stop, Tracee};
use std::time::{Duration, Instant};

pub const BASE: u64 = 0x2000_0000;
pub const PAGE: u64 = 4096;
pub const CODE: u64 = BASE + 0x100;
pub const DATA: u64 = BASE + 8 * PAGE;
pub const LANDING: u64 = BASE + 29 * PAGE;
pub const LOADED: u64 = BASE + 30 * PAGE;
pub const STORED: u64 = BASE + 31 * PAGE;
/// Bytes of stored registers within their page; oracles write to the rest.
pub const STORED_BYTES: usize = 2048 + 64;
const HELPERS: u64 = BASE + PAGE;
const BREAKPOINT: u8 = 0xcc;
const PATIENCE: Duration = Duration::from_secs(2);

/// Pages that hold data, as (first, count).
const HELD: [(u64, u64); 6] = [(2, 1), (5, 2), (8, 17), (25, 1), (27, 1), (30, 2)];

/// Assembles text to bytes.
macro_rules! code {
    ($($text:literal),+) => {{
        let (start, end): (*const u8, *const u8);
        // SAFETY: reads two addresses; the code between them is in read-only data and is not executed here.
        unsafe {
            std::arch::asm!(
                "lea {0}, [rip + 22f]", "lea {1}, [rip + 23f]",
                ".pushsection .rodata.code, \"a\"", "22:", $($text,)+ "23:", ".popsection",
                out(reg) start, out(reg) end, options(nomem, nostack, preserves_flags),
            );
            std::slice::from_raw_parts(start, end.offset_from(start) as usize)
        }
    }};
}
pub(crate) use code;

/// Everything that a program may have changed.
#[derive(Clone)]
pub struct State {
    pub ending: Ending,
    pub registers: Registers,
    pub memory: Memory,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It ran to the end of its code.
    Through,
    Signal {
        signal: i32,
        code: i32,
        address: u64,
        rip: u64,
    },
    Hang,
    Exited,
}

/// Content of the data pages.
#[derive(Clone, PartialEq)]
pub struct Memory(Vec<u8>);

impl Memory {
    pub fn filled(mut byte: impl FnMut(u64) -> u8) -> Memory {
        let addresses =
            HELD.iter().flat_map(|&(first, count)| (0..count * PAGE).map(move |offset| BASE + first * PAGE + offset));
        Memory(addresses.map(&mut byte).collect())
    }

    pub fn at(&mut self, address: u64) -> &mut u8 {
        self.find(address).expect("a held address")
    }

    pub fn find(&mut self, address: u64) -> Option<&mut u8> {
        let mut before = 0;
        for (first, count) in HELD {
            let start = BASE + first * PAGE;
            if (start..start + count * PAGE).contains(&address) {
                return self.0.get_mut(before + (address - start) as usize);
            }
            before += (count * PAGE) as usize;
        }
        None
    }

    pub fn put(&mut self, address: u64, bytes: &[u8]) {
        for (offset, &byte) in bytes.iter().enumerate() {
            *self.at(address + offset as u64) = byte;
        }
    }

    pub fn word(&mut self, address: u64) -> u64 {
        (0..8).rev().fold(0, |word, offset| word << 8 | u64::from(*self.at(address + offset)))
    }

    /// The first addresses at which two differ.
    pub fn differences(&mut self, other: &mut Memory) -> Vec<String> {
        let mut found = Vec::new();
        for (first, count) in HELD {
            for address in BASE + first * PAGE..BASE + (first + count) * PAGE {
                let (ours, theirs) = (*self.at(address), *other.at(address));
                if ours != theirs && found.len() < 12 {
                    found.push(format!("{address:#x}: {ours:#04x}, oracle {theirs:#04x}"));
                }
            }
        }
        found
    }
}

pub struct Scratch {
    pub tracee: Tracee,
    code_end: u64,
    load: u64,
    store: u64,
}

impl Scratch {
    pub fn new(load: &[u8], store: &[u8]) -> Scratch {
        // SAFETY: the child makes only system calls until it stops, and is never resumed in this program's code.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            lay_out();
        }
        let tracee = Tracee::new(pid).expect("a child's memory");
        assert_eq!(tracee.wait().expect("a child"), Stop::Signal(libc::SIGSTOP), "the region cannot be laid out");
        tracee.set_options(libc::PTRACE_O_EXITKILL).expect("a stopped child");
        let mut scratch = Scratch { tracee, code_end: CODE, load: HELPERS, store: HELPERS };
        scratch.tracee.write(LANDING, &[BREAKPOINT; PAGE as usize]).unwrap();
        scratch.tracee.write(HELPERS, &[BREAKPOINT; PAGE as usize]).unwrap();
        scratch.store = HELPERS + ((load.len() as u64 + 64) & !63);
        scratch.tracee.write(scratch.load, load).unwrap();
        scratch.tracee.write(scratch.store, store).unwrap();
        scratch
    }

    /// Sets the code at [`CODE`], memory, vector registers from their page of it, then the registers.
    pub fn set(&mut self, code: &[u8], memory: &Memory, registers: &Registers) {
        let mut page = [BREAKPOINT; PAGE as usize - 0x100];
        page[..code.len()].copy_from_slice(code);
        self.tracee.write(CODE, &page).unwrap();
        self.code_end = CODE + code.len() as u64;
        let mut from = 0;
        for (first, count) in HELD {
            let length = (count * PAGE) as usize;
            self.tracee.write(BASE + first * PAGE, &memory.0[from..from + length]).unwrap();
            from += length;
        }
        self.help(self.load);
        self.tracee.set_registers(registers).unwrap();
    }

    /// Registers of the stopped child, which a test changes in part.
    pub fn registers(&self) -> Registers {
        Registers { orig_rax: u64::MAX, rip: CODE, ..self.tracee.registers().unwrap() }
    }

    pub fn step(&self) {
        assert!(self.tracee.step().unwrap().trapped(), "an undisturbed instruction");
    }

    /// Runs it to its end.
    pub fn run(&mut self) -> State {
        self.tracee.resume(0).unwrap();
        let deadline = Instant::now() + PATIENCE;
        let stop = loop {
            match self.tracee.poll().unwrap() {
                Some(stop) => break Some(stop),
                None if Instant::now() > deadline => break None,
                None => std::thread::yield_now(),
            }
        };
        match stop {
            Some(Stop::Signal(_)) => self.finish(),
            // a process without an end cannot be compared further, and is not used again
            other => State {
                ending: if other.is_some() { Ending::Exited } else { Ending::Hang },
                registers: self.no_registers(),
                memory: Memory(Vec::new()),
            },
        }
    }

    /// Its state after it was stopped by a signal.
    pub fn finish(&mut self) -> State {
        let registers = self.tracee.registers().unwrap();
        let details = self.details();
        let through = details[0] as i32 == libc::SIGTRAP && registers.rip == self.code_end + 1;
        let ending = if through {
            Ending::Through
        } else {
            Ending::Signal {
                signal: details[0] as i32,
                code: details[1] as i32,
                address: details[2],
                rip: registers.rip,
            }
        };
        self.help(self.store);
        let mut memory = held(self);
        let mut rest = STORED + STORED_BYTES as u64;
        while rest < STORED + PAGE {
            *memory.at(rest) = 0;
            rest += 1;
        }
        State { ending, registers, memory }
    }

    /// Signal, code and address as the kernel reports them.
    fn details(&self) -> [u64; 3] {
        let mut words = [0u64; 16];
        // SAFETY: the kernel fills 128 bytes.
        let result = unsafe { libc::ptrace(libc::PTRACE_GETSIGINFO, self.tracee.pid, 0, words.as_mut_ptr()) };
        assert_eq!(result, 0, "it is stopped by a signal");
        [words[0] & 0xffff_ffff, words[1] & 0xffff_ffff, words[2]]
    }

    fn help(&self, rip: u64) {
        let now = self.tracee.registers().unwrap();
        // disturbed code may have loaded selectors that the processor accepts and the kernel does not
        let registers = Registers { rip, orig_rax: u64::MAX, eflags: 0x202, ds: 0, es: 0, fs: 0, gs: 0, ..now };
        self.tracee.set_registers(&registers).unwrap();
        assert!(self.tracee.resume_and_wait(0).unwrap().trapped(), "vector registers cannot be moved");
    }

    fn no_registers(&self) -> Registers {
        // SAFETY: a structure of plain numbers.
        unsafe { std::mem::zeroed() }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.tracee.kill();
        while self.tracee.wait().is_ok_and(|stop| !stop.ended()) {}
    }
}

/// Current content of its data pages.
pub fn held(scratch: &Scratch) -> Memory {
    let mut memory = Memory(Vec::new());
    for (first, count) in HELD {
        let mut bytes = vec![0; (count * PAGE) as usize];
        scratch.tracee.read(BASE + first * PAGE, &mut bytes).unwrap();
        memory.0.extend(bytes);
    }
    memory
}

/// In the child: maps the region, then stops.
fn lay_out() -> ! {
    const READ: i32 = libc::PROT_READ;
    const WRITE: i32 = libc::PROT_READ | libc::PROT_WRITE;
    const CODE: i32 = libc::PROT_READ | libc::PROT_EXEC;
    let parts = [
        (0, 2, CODE),
        (2, 1, READ),
        (3, 1, 0),
        (5, 2, WRITE),
        (8, 16, WRITE),
        (24, 1, READ),
        (25, 1, WRITE),
        (26, 1, 0),
        (27, 1, WRITE),
        (28, 1, WRITE),
        (29, 1, CODE),
        (30, 2, WRITE),
    ];
    // SAFETY: nothing of this program is at those addresses, and the child does nothing else.
    unsafe {
        for (first, count, protection) in parts {
            let file = if first == 28 { libc::memfd_create(c"missing".as_ptr(), 0) } else { -1 };
            let flags = libc::MAP_PRIVATE | libc::MAP_FIXED_NOREPLACE | if file < 0 { libc::MAP_ANONYMOUS } else { 0 };
            let at = (BASE + first * PAGE) as *mut libc::c_void;
            if libc::mmap(at, (count * PAGE) as usize, protection, flags, file, 0) != at {
                libc::_exit(1);
            }
        }
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
        libc::raise(libc::SIGSTOP);
        libc::_exit(2)
    }
}
