//! Every flip does what the processor would do.
//!
//! Two processes start alike, in random states. In one, the flip is brought about. In the other it happens by other means:
//! a wrong address is one that instructions written for it really access; all else is set by hand between plain steps.
//! Then both run on, and all their registers and memory, or the signals they got, must be the same.
//! A failure prints the seed; `STRIKE_SEED=N` repeats it, `STRIKE_CASES=N` does more than a quick run.
#![allow(unsafe_code)] // test processes are made by hand; each place says why it may

mod scratch;
mod shapes;
mod single;

use bit_flips::instruction::{Instruction, Operand};
use bit_flips::random::Random;
use bit_flips::strike::{Blow, Next, strike};
use bit_flips::tracee::Registers;
use model::flip::FlipType;
use scratch::{CODE, DATA, Ending, LANDING, LOADED, Memory, PAGE, STORED, Scratch, State, code};
use shapes::{Needs, Shape};
use std::io::Write;

const DIRECTION: u64 = 1 << 10;
/// Status flags and direction.
const FLAGS: u64 = 0xcd5;
const SI_KERNEL: i32 = 0x80;

pub fn scratch() -> Scratch {
    match Needs::present() {
        Needs::Avx512 => Scratch::new(
            code!(
                "fninit",
                "fld1",
                "mov eax, 0x2001e000",
                ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
                "vmovdqu64 zmm\\n, [rax+64*\\n]",
                ".endr",
                ".irp n,0,1,2,3,4,5,6,7",
                "kmovq k\\n, [rax+2048+8*\\n]",
                ".endr"
            ),
            code!(
                "mov eax, 0x2001f000",
                ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
                "vmovdqu64 [rax+64*\\n], zmm\\n",
                ".endr",
                ".irp n,0,1,2,3,4,5,6,7",
                "kmovq [rax+2048+8*\\n], k\\n",
                ".endr"
            ),
        ),
        Needs::Avx2 => Scratch::new(
            code!(
                "fninit",
                "fld1",
                "mov eax, 0x2001e000",
                ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
                "vmovdqu ymm\\n, [rax+64*\\n]",
                ".endr"
            ),
            code!(
                "mov eax, 0x2001f000",
                ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
                "vmovdqu [rax+64*\\n], ymm\\n",
                ".endr"
            ),
        ),
        Needs::Nothing => Scratch::new(
            code!(
                "fninit",
                "fld1",
                "mov eax, 0x2001e000",
                ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
                "movups xmm\\n, [rax+64*\\n]",
                ".endr"
            ),
            code!(
                "mov eax, 0x2001f000",
                ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
                "movups [rax+64*\\n], xmm\\n",
                ".endr"
            ),
        ),
    }
}

/// The state both processes begin in.
struct Start {
    memory: Memory,
    registers: Registers,
    iteration: u64,
}

struct Pair {
    struck: Scratch,
    oracle: Scratch,
    compared: u64,
    missed: u64,
}

impl Pair {
    fn new() -> Pair {
        Pair { struck: scratch(), oracle: scratch(), compared: 0, missed: 0 }
    }

    /// What becomes of the struck process. None: nothing was flipped.
    fn strike(&mut self, shape: &Shape, start: &Start, blow: &Blow) -> Option<(State, i32)> {
        self.struck.set(shape.code, &start.memory, &start.registers);
        let instruction = Instruction::decode(CODE, shape.code).unwrap();
        let struck = strike(&self.struck.tracee, &instruction, blow).unwrap();
        if !struck.activated {
            return None;
        }
        Some(match struck.next {
            Next::Resume(0) => (self.struck.run(), 0),
            Next::Resume(signal) => (self.struck.finish(), signal),
            other => panic!("{}: {other:?}", shape.text),
        })
    }

    fn renew(&mut self, states: [&State; 2]) {
        if states.iter().any(|state| matches!(state.ending, Ending::Hang | Ending::Gone)) {
            self.struck = scratch();
            self.oracle = scratch();
        }
    }
}

fn start(random: &mut Random, shape: &Shape, oracle: &mut Scratch) -> Start {
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
        // near the page's end, more often than chance has it
        let offset = if random.below(4) == 0 { PAGE - random.below(72) } else { 0x400 + random.below(PAGE) };
        (page + offset) & !(align(random) - 1)
    };
    registers.rsi = pointer(random);
    registers.rdi =
        if random.below(4) == 0 { (registers.rsi + random.below(32)) & !(shape.align - 1) } else { pointer(random) };
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
    let string = shape.repeated || ["movsb", "stosq", "lodsd", "scasb", "cmpsb"].contains(&shape.text);
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

/// `signal` is what the strike left to be delivered.
fn compare(shape: &Shape, struck: &mut State, oracle: &mut State, same_code: bool, signal: i32) -> Result<(), String> {
    let differ = |what: String| Err(format!("{what}\nstruck {:x?}\noracle {:x?}", struck.ending, oracle.ending));
    let mut whole = same_code;
    match (struck.ending, oracle.ending) {
        (Ending::Through, Ending::Through) => whole = true,
        (Ending::Hang, Ending::Hang) | (Ending::Gone, Ending::Gone) => return Ok(()),
        (
            Ending::Signal { signal: a, code: b, address: c, rip: d },
            Ending::Signal { signal: w, code: x, address: y, rip: z },
        ) => {
            // which byte of a page a masked access reports is the processor's affair
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
                return differ("another place".into());
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
    if whole && general(&struck.registers) != general(&oracle.registers) {
        return differ(format!("registers\n{:x?}\n{:x?}", general(&struck.registers), general(&oracle.registers)));
    }
    if struck.memory != oracle.memory {
        let differences = struck.memory.differences(&mut oracle.memory);
        return differ(differences.join("\n"));
    }
    Ok(())
}

/// Runs `check` for each shape and seed that this processor allows.
fn each(what: &str, cases: u64, mut check: impl FnMut(&mut Pair, &mut Random, &Shape) -> Result<(), String>) {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let only = number("STRIKE_SEED");
    let cases = number("STRIKE_CASES").unwrap_or(cases);
    let mut pair = Pair::new();
    let (possible, impossible): (Vec<Shape>, Vec<Shape>) =
        shapes::all().into_iter().partition(|shape| shape.needs <= Needs::present());
    for shape in impossible {
        say(&format!("skipped: {what}: this processor has no {:?} for {}", shape.needs, shape.text));
    }
    for (index, shape) in possible.iter().enumerate() {
        assert_eq!(Instruction::decode(CODE, shape.code).unwrap().operands(FlipType::Cf), 1);
        for case in 0..cases {
            let seed = (index as u64) << 32 | case;
            if only.is_none_or(|only| only == seed) {
                let found = check(&mut pair, &mut Random(seed), shape);
                found.unwrap_or_else(|why| panic!("{}: STRIKE_SEED={seed}: {why}", shape.text));
            }
        }
    }
    say(&format!("{what}: {} compared, {} missed", pair.compared, pair.missed));
    assert!(only.is_some() || pair.compared > 20 * pair.missed, "too many flips missed");
}

pub fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}"); // not captured
}

#[test]
fn wrong_addresses_are_those_of_real_accesses() {
    each("addresses", 60, |pair, random, shape| {
        for &(kind, operand, address, oracle) in &shape.addresses {
            let mut start = start(random, shape, &mut pair.oracle);
            let bit = match random.below(3) {
                0 => random.below(12),
                1 => 12 + random.below(6),
                _ => random.below(64),
            } as u32;
            let right = address(&start.registers);
            start.registers.r15 = right ^ 1 << bit;
            if !shape.frame {
                start.registers.rbp = start.registers.r15;
            }
            let blow = Blow { kind, operand, bit, iteration: start.iteration, seed: 0 };
            let Some((mut struck, signal)) = pair.strike(shape, &start, &blow) else {
                let excused = shape.masked || shape.text.ends_with("cmpsb");
                assert!(excused, "{kind} {operand} bit {bit} of {right:#x} was not made");
                pair.missed += 1;
                continue;
            };
            pair.oracle.set(oracle, &start.memory, &start.registers);
            let mut native = pair.oracle.run();
            let about = format!("{kind} {operand} bit {bit} of {right:#x}, iteration {}", start.iteration);
            compare(shape, &mut struck, &mut native, false, signal).map_err(|why| format!("{about}: {why}"))?;
            if signal != 0 && !shape.repeated {
                assert_eq!(struck.registers.rip, CODE, "it did not run: {about}");
                assert_eq!(struck.registers.rsp, start.registers.rsp, "{about}");
            }
            pair.compared += 1;
            pair.renew([&struck, &native]);
        }
        Ok(())
    });
}

#[test]
fn all_other_flips_are_those_made_by_hand() {
    each("values", 12, |pair, random, shape| {
        let instruction = Instruction::decode(CODE, shape.code).unwrap();
        for kind in [FlipType::Cf, FlipType::Wreg, FlipType::Rreg, FlipType::Wval, FlipType::Rval, FlipType::Text] {
            for operand in 0..instruction.operands(kind) {
                let start = start(random, shape, &mut pair.oracle);
                let bit = random.below(instruction.width(kind, operand).into()) as u32;
                let like = if kind == FlipType::Wval { FlipType::Waddr } else { FlipType::Raddr };
                let found = shape.addresses.iter().find(|row| (row.0, row.1) == (like, operand));
                let valued = matches!(kind, FlipType::Wval | FlipType::Rval);
                if valued && (found.is_none() || shape.masked) {
                    continue;
                }
                if kind == FlipType::Text && unrepeatable(shape.code, bit) {
                    continue;
                }
                let address = found.filter(|_| valued).map(|row| row.2(&start.registers));
                let blow = Blow { kind, operand, bit, iteration: start.iteration, seed: 0 };
                let Some((mut struck, signal)) = pair.strike(shape, &start, &blow) else {
                    return Err(format!("{kind} {operand} bit {bit} was not made"));
                };
                let hit = instruction.operand(kind, operand).unwrap();
                let mut native = by_hand(&mut pair.oracle, shape, &start, &blow, hit, address);
                let about = format!("{kind} {operand} bit {bit}, iteration {}", start.iteration);
                compare(shape, &mut struck, &mut native, true, signal).map_err(|why| format!("{about}: {why}"))?;
                pair.compared += 1;
                pair.renew([&struck, &native]);
            }
        }
        Ok(())
    });
}

/// Code with this bit flipped reads clocks or random numbers, or asks the kernel for who knows what.
fn unrepeatable(code: &[u8], bit: u32) -> bool {
    let mut flipped = code.to_vec();
    flipped[bit as usize / 8] ^= 1 << (bit % 8);
    let unrepeatable = ["rdtsc", "rdtscp", "rdrand", "rdseed", "rdpid", "rdpmc", "syscall", "sysenter", "int"];
    let mut ip = 0;
    while let Some(instruction) = Instruction::decode(ip, &flipped[ip as usize..]) {
        let text = instruction.text();
        if unrepeatable.contains(&text.split(' ').next().unwrap_or_default()) {
            return true;
        }
        ip = instruction.next_ip();
    }
    false
}

/// The same flip between steps of the undisturbed instruction.
fn by_hand(
    oracle: &mut Scratch,
    shape: &Shape,
    start: &Start,
    blow: &Blow,
    hit: Operand,
    address: Option<u64>,
) -> State {
    let (byte, within) = (u64::from(blow.bit / 8), 1u8 << (blow.bit % 8));
    let mut memory = start.memory.clone();
    // a vector register that is read has its flip already when it is loaded
    if let (Operand::Register(register), FlipType::Rreg) = (hit, blow.kind)
        && let Some(offset) = vector(register)
    {
        *memory.at(LOADED + offset + byte) ^= within;
    }
    oracle.set(shape.code, &memory, &start.registers);
    let after = matches!(blow.kind, FlipType::Wreg | FlipType::Wval);
    (0..start.iteration).for_each(|_| oracle.step());
    if start.iteration > 0 {
        // whether a trap within shows the flags of the last comparison is the processor's affair
        let now = oracle.tracee.registers().unwrap();
        oracle.tracee.set_registers(&Registers { eflags: start.registers.eflags, ..now }).unwrap();
    }
    (0..u64::from(after)).for_each(|_| oracle.step());
    let mut registers = oracle.tracee.registers().unwrap();
    if after && shape.text == "pushfq" {
        // the trap flag of the step
        let mut flags = [0; 2];
        oracle.tracee.read(registers.rsp, &mut flags).unwrap();
        oracle.tracee.write(registers.rsp, &[flags[0], flags[1] & !1]).unwrap();
    }
    let place = address.unwrap_or(CODE) + byte;
    match hit {
        Operand::InstructionPointer => registers.rip ^= 1 << blow.bit,
        Operand::Flags(mask) => {
            let mut set = (0..12).filter(|flag| mask >> flag & 1 == 1);
            registers.eflags ^= 1 << set.nth(blow.bit as usize).unwrap();
        }
        Operand::Register(register) => flip_general(&mut registers, register, blow.bit),
        Operand::Value(_) | Operand::Code => {
            let mut value = [0];
            oracle.tracee.read(place, &mut value).unwrap();
            oracle.tracee.write(place, &[value[0] ^ within]).unwrap();
        }
        Operand::Address(_) | Operand::Variables => unreachable!(),
    }
    oracle.tracee.set_registers(&registers).unwrap();
    let mut state = oracle.run();
    if let Operand::Register(register) = hit
        && let Some(offset) = vector(register)
        && let Some(place) = state.memory.find(if after { STORED } else { LOADED } + offset + byte)
    {
        // what was stored, or, undone, what was loaded
        *place ^= within;
    }
    state
}

/// Where a vector or mask register is within the page that it is loaded from, or stored to.
fn vector(register: iced_x86::Register) -> Option<u64> {
    match register {
        register if register.is_vector_register() => Some(64 * register.number() as u64),
        register if register.is_k() => Some(2048 + 8 * register.number() as u64),
        _ => None,
    }
}

fn flip_general(registers: &mut Registers, register: iced_x86::Register, bit: u32) {
    let name = format!("{:?}", register.full_register());
    let high = matches!(format!("{register:?}").as_str(), "AH" | "BH" | "CH" | "DH");
    let whole = match name.as_str() {
        "RAX" => &mut registers.rax,
        "RBX" => &mut registers.rbx,
        "RCX" => &mut registers.rcx,
        "RDX" => &mut registers.rdx,
        "RSI" => &mut registers.rsi,
        "RDI" => &mut registers.rdi,
        "RBP" => &mut registers.rbp,
        "RSP" => &mut registers.rsp,
        _ => return,
    };
    *whole ^= 1 << (bit + if high { 8 } else { 0 });
}
