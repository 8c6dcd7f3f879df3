//! Arbitrary values in several variables at once (SEI §3, arbitrary state corruption).
//!
//! The paper's fault puts any value into any number of variables. A binary does not define variables, so each of these
//! counts as one: the general registers except the stack pointer, the 32 words from the stack pointer up, the words
//! that registers point to, and the words that the instruction accesses. Memory counts only if the program may write to
//! it. Two to four distinct variables are drawn uniformly and get uniform 64-bit values.

use crate::processor::instruction::Instruction;
use crate::processor::memory_operand::MemoryOperand;
use crate::processor::registers;
use crate::program::mappings::Mappings;
use iced_x86::Register;
use model::random::Random;
use sandbox::tracee::{Registers, Tracee};
use std::io;

const STACK_WORDS: u64 = 32;
const REGISTERS: [Register; 15] = {
    use Register::*;
    [RAX, RBX, RCX, RDX, RSI, RDI, RBP, R8, R9, R10, R11, R12, R13, R14, R15]
};

#[derive(Clone, Copy, PartialEq)]
enum Variable {
    Register(Register),
    /// Eight bytes at a multiple of eight.
    Word(u64),
}

/// Corrupts variables drawn from `seed` and returns a description.
pub(super) fn corrupt(tracee: &Tracee, instruction: &Instruction, seed: u64) -> io::Result<String> {
    let mut registers = tracee.registers()?;
    let mut variables = candidates(tracee, instruction, &registers)?;
    let mut random = Random(seed);
    let count = 2 + random.below(3);
    let mut hits = Vec::new();
    for _ in 0..count {
        let chosen = variables.swap_remove(random.below(variables.len() as u64) as usize);
        let value = random.number();
        hits.push(match chosen {
            Variable::Register(register) => {
                let Some(whole) = registers::whole(&mut registers, register) else { continue };
                let before = std::mem::replace(whole, value);
                format!("{} {before:#x} -> {value:#x}", format!("{register:?}").to_lowercase())
            }
            Variable::Word(address) => {
                let before = tracee.read_u64(address)?;
                tracee.write(address, &value.to_le_bytes())?;
                format!("[{address:#x}] {before:#x} -> {value:#x}")
            }
        });
    }
    tracee.set_registers(&registers)?;
    Ok(hits.join(", "))
}

/// All variables, each once. There are always more than are drawn: at least the registers.
fn candidates(tracee: &Tracee, instruction: &Instruction, registers: &Registers) -> io::Result<Vec<Variable>> {
    let mappings = Mappings::of(tracee.pid)?;
    let stack = (0..STACK_WORDS).map(|word| registers.rsp.wrapping_add(8 * word));
    let pointed = REGISTERS.into_iter().filter_map(|register| registers::value(registers, register));
    let operands = instruction.memory().iter().filter(|memory| memory.mask.is_none());
    let operands = operands.flat_map(|memory: &MemoryOperand| {
        let start = memory.address(registers).unwrap_or_default();
        (0..u64::from(memory.size)).step_by(8).map(move |offset| start.wrapping_add(offset))
    });
    let words = stack.chain(pointed).chain(operands).map(|address| address & !7);
    let mut variables: Vec<Variable> = REGISTERS.into_iter().map(Variable::Register).collect();
    for address in words {
        let writable = mappings.at(address).is_some_and(|mapping| mapping.writable);
        let word = Variable::Word(address);
        if writable && !variables.contains(&word) && tracee.read_u64(address).is_ok() {
            variables.push(word);
        }
    }
    Ok(variables)
}
