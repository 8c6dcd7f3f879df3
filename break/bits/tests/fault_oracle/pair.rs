//! Two processes that start in the same state, and the comparison of their ends.

use crate::scratch::{CODE, DATA, Ending, LANDING, LOADED, Memory, PAGE, Scratch, State};
use crate::shapes::Shape;
use crate::vectors;
use bit_flips::inject::{Fault, NextAction, apply};
use bit_flips::processor::instruction::Instruction;
use model::random::Random;
use sandbox::tracee::Registers;

const DIRECTION: u64 = 1 << 10;
/// Status flags and direction.
const FLAGS: u64 = 0xcd5;
const SI_KERNEL: i32 = 0x80;

/// The state both processes begin in.
pub struct Start {
    pub memory: Memory,
    pub registers: Registers,
    pub iteration: u64,
}

pub struct Pair {
    pub faulty: Scratch,
    pub oracle: Scratch,
    pub compared: u64,
    pub missed: u64,
}

impl Pair {
    pub fn new() -> Pair {
        Pair { faulty: vectors::scratch(), oracle: vectors::scratch(), compared: 0, missed: 0 }
    }

    /// The end of the faulty process. None: nothing was flipped.
    pub fn inject(&mut self, shape: &Shape, start: &Start, fault: &Fault) -> Option<(State, i32)> {
        self.faulty.set(shape.code, &start.memory, &start.registers);
        let instruction = Instruction::decode(CODE, shape.code).unwrap();
        let faulty = apply(&self.faulty.tracee, None, &instruction, fault).unwrap();
        if !faulty.activated {
            return None;
        }
        Some(match faulty.next {
            NextAction::Resume(0) => (self.faulty.run(), 0),
            NextAction::Resume(signal) => (self.faulty.finish(), signal),
            other => panic!("{}: {other:?}", shape.text),
        })
    }

    pub fn renew(&mut self, states: [&State; 2]) {
        if states.iter().any(|state| matches!(state.ending, Ending::Hang | Ending::Exited)) {
            self.faulty = vectors::scratch();
            self.oracle = vectors::scratch();
        }
    }
}

pub fn start(random: &mut Random, shape: &Shape, oracle: &mut Scratch) -> Start {
    let landing = |number: u64| LANDING + number % PAGE;
    let style = random.below(3);
    let mut content = Random(random.number());
    let mut word = 0u64;
    let mut memory = Memory::filled(|address| {
        if address % 8 == 0 {
            let number = content.number();
            word = match style {
                _ if shape.jumps && !(LOADED..).contains(&address) => landing(number),
                0 => number,
                1 => 0x4141_4141_4141_4141 ^ (u64::from(number.is_multiple_of(5)) << (number >> 32 & 63)),
                _ => DATA + number % (8 * PAGE),
            };
        }
        (word >> (8 * (address % 8))) as u8
    });
    let mut registers = oracle.registers();
    let align = |random: &mut Random| shape.align.max([1, 1, 8, 64][random.below(4) as usize]);
    let pointer = |random: &mut Random| {
        let page = DATA + random.below(8) * PAGE;
        // more often near the page's end
        let offset = if random.below(4) == 0 { PAGE - random.below(72) } else { 0x400 + random.below(PAGE) };
        (page + offset) & !(align(random) - 1)
    };
    registers.rsi = pointer(random);
    let string = shape.repeated || ["movsb", "stosq", "lodsd", "scasb", "cmpsb"].contains(&shape.text);
    registers.rdi = match random.below(4) {
        0 => (registers.rsi + random.below(if string { 3 } else { 32 })) & !(shape.align - 1),
        _ => pointer(random),
    };
    registers.rbx = pointer(random);
    registers.rbp = pointer(random);
    registers.rsp = pointer(random) & !7;
    registers.fs_base = pointer(random);
    registers.rcx = random.below(24);
    registers.rdx = random.number();
    registers.rax = match random.below(3) {
        _ if shape.jumps => landing(random.number()),
        0 => pointer(random),
        1 => random.number() | 1 << 40,
        _ => memory.word(registers.rdi),
    };
    if shape.text.starts_with("div") {
        registers.rdx = 0;
        *memory.at(registers.rdi) |= 1;
    }
    registers.r8 = random.number();
    registers.r9 = random.number();
    registers.eflags = 0x202 | random.number() & FLAGS & !DIRECTION;
    let size = match shape.text.chars().last() {
        Some('q') => 8,
        Some('d') => 4,
        _ => 1,
    };
    registers.r10 = size;
    if string && random.below(3) == 0 {
        registers.eflags |= DIRECTION;
        registers.r10 = size.wrapping_neg();
    }
    if string && random.below(3) == 0 {
        // elements that stay equal for a while
        let value = registers.rax as u8 ^ 1;
        (0..200).for_each(|offset| {
            *memory.at(registers.rdi - 100 + offset) = value;
            *memory.at(registers.rsi - 100 + offset) = value;
        });
    }
    registers.r13 = Instruction::decode(CODE, shape.code).unwrap().next_ip();
    registers.r14 = random.number();
    registers.r15 = random.number();
    let mut iteration = 0;
    if shape.repeated {
        registers.rcx += 1;
        oracle.set(shape.code, &memory, &registers);
        let done = registers.rcx - oracle.run().registers.rcx;
        iteration = random.below(done);
        registers.r12 = iteration;
        registers.r11 = (iteration + 1).wrapping_neg();
    }
    Start { memory, registers, iteration }
}

/// `signal` is the undelivered signal of the flip.
pub fn compare(
    shape: &Shape,
    faulty: &mut State,
    oracle: &mut State,
    same_code: bool,
    signal: i32,
) -> Result<(), String> {
    let differ = |what: String| Err(format!("{what}\nfaulty {:x?}\noracle {:x?}", faulty.ending, oracle.ending));
    let mut whole = same_code;
    match (faulty.ending, oracle.ending) {
        (Ending::Through, Ending::Through) => whole = true,
        (Ending::Hang, Ending::Hang) | (Ending::Exited, Ending::Exited) => return Ok(()),
        (
            Ending::Signal { signal: a, code: b, address: c, rip: d },
            Ending::Signal { signal: w, code: x, address: y, rip: z },
        ) => {
            // which byte of a page a masked access reports depends on the processor
            let same_address = c == y || shape.masked && c / PAGE == y / PAGE;
            if (a, b) != (w, x) || !same_address && a != libc::SIGFPE {
                return differ("another signal".into());
            }
            if signal != 0 && signal != a {
                return differ(format!("to be resumed with signal {signal}"));
            }
            // raised by other code, at an address of its own; or where both jumped to
            let elsewhere = |rip| !(CODE & !(PAGE - 1)..CODE + PAGE).contains(&rip);
            whole |= elsewhere(d) && b != SI_KERNEL || a == libc::SIGTRAP;
            if whole && d != z {
                return differ("another address".into());
            }
        }
        _ => return differ("another end".into()),
    }
    let general = |r: &Registers| {
        [
            r.rax,
            r.rbx,
            r.rcx,
            r.rdx,
            r.rsi,
            r.rdi,
            r.rsp,
            r.rbp,
            r.r8,
            r.r9,
            r.r10,
            r.r11,
            r.r12,
            r.r13,
            r.r15,
            r.eflags & FLAGS,
        ]
    };
    if whole && general(&faulty.registers) != general(&oracle.registers) {
        return differ(format!("registers\n{:x?}\n{:x?}", general(&faulty.registers), general(&oracle.registers)));
    }
    if shape.text.starts_with("call") && matches!(faulty.ending, Ending::Signal { code: SI_KERNEL, .. }) {
        // whether a call to a non-canonical target has pushed already depends on the processor: Intel's have,
        // AMD's have not
        let pushed = [faulty.registers.rsp, faulty.registers.rsp - 8, faulty.registers.r15];
        for address in pushed.into_iter().flat_map(|begin| begin..begin + 8) {
            if let (Some(ours), Some(theirs)) = (faulty.memory.find(address), oracle.memory.find(address)) {
                *ours = *theirs;
            }
        }
    }
    if faulty.memory != oracle.memory {
        let differences = faulty.memory.differences(&mut oracle.memory);
        return differ(differences.join("\n"));
    }
    Ok(())
}
