//! Flips of values, registers and code, set by hand between plain steps of the undisturbed instruction.

use crate::pair::Start;
use crate::scratch::{CODE, LOADED, STORED, Scratch, State};
use crate::shapes::Shape;
use bit_flips::inject::Fault;
use bit_flips::processor::instruction::{Instruction, Operand};
use model::flip::FlipType;
use sandbox::tracee::Registers;

/// The same flip between steps of the undisturbed instruction.
pub fn by_hand(
    oracle: &mut Scratch,
    shape: &Shape,
    start: &Start,
    fault: &Fault,
    hit: Operand,
    address: Option<u64>,
) -> State {
    let (byte, within) = (u64::from(fault.bit / 8), 1u8 << (fault.bit % 8));
    let mut memory = start.memory.clone();
    // a vector register that is read is loaded with its flip
    if let (Operand::Register(register), FlipType::Rreg) = (hit, fault.kind)
        && let Some(offset) = vector(register)
    {
        *memory.at(LOADED + offset + byte) ^= within;
    }
    oracle.set(shape.code, &memory, &start.registers);
    let after = matches!(fault.kind, FlipType::Wreg | FlipType::Wval);
    (0..start.iteration).for_each(|_| oracle.step());
    if start.iteration > 0 {
        // whether a trap within has the flags of the last comparison depends on the processor
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
    let address = address.unwrap_or(CODE) + byte;
    match hit {
        Operand::InstructionPointer => registers.rip ^= 1 << fault.bit,
        Operand::Flags(mask) => {
            let mut set = (0..12).filter(|flag| mask >> flag & 1 == 1);
            registers.eflags ^= 1 << set.nth(fault.bit as usize).unwrap();
        }
        Operand::Register(register) => flip_general(&mut registers, register, fault.bit),
        Operand::Value(_) | Operand::Code => {
            let mut value = [0];
            oracle.tracee.read(address, &mut value).unwrap();
            oracle.tracee.write(address, &[value[0] ^ within]).unwrap();
        }
        Operand::Address(_) | Operand::Variables => unreachable!(),
    }
    oracle.tracee.set_registers(&registers).unwrap();
    let mut state = oracle.run();
    if let Operand::Register(register) = hit
        && let Some(offset) = vector(register)
        && let Some(address) = state.memory.find(if after { STORED } else { LOADED } + offset + byte)
    {
        // what was stored, or, undone, what was loaded
        *address ^= within;
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

/// Whether the code with this bit flipped reads clocks or random numbers, or makes system calls.
pub fn unrepeatable(code: &[u8], bit: u32) -> bool {
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
