//! Arbitrary values in several variables at once (SEI §3, arbitrary state corruption).
//!
//! The paper's fault may put any value into any number of variables. What a variable is, a binary does not say, so these are
//! taken for one each: the general registers but the stack pointer, the 32 words from the stack pointer up, the words that
//! the registers point at, and those that the instruction accesses; of memory only what the program may write. Two to four
//! different ones are drawn, all alike, and get any 64 bits.

use crate::access::{self, Memory};
use crate::instruction::Instruction;
use crate::mappings::Mappings;
use crate::random::Random;
use crate::tracee::{Registers, Tracee};
use iced_x86::Register;
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

/// Corrupts the variables that `seed` chooses; says what it did.
pub(crate) fn corrupt(tracee: &Tracee, instruction: &Instruction, seed: u64) -> io::Result<String> {
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
                let Some(whole) = access::whole(&mut registers, register) else { continue };
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

/// All variables, each once: at least the registers, more than are ever drawn.
fn candidates(tracee: &Tracee, instruction: &Instruction, registers: &Registers) -> io::Result<Vec<Variable>> {
    let mappings = Mappings::of(tracee.pid)?;
    let stack = (0..STACK_WORDS).map(|word| registers.rsp.wrapping_add(8 * word));
    let pointed = REGISTERS.into_iter().filter_map(|register| access::value(registers, register));
    let operands = instruction.memory().iter().filter(|memory| memory.mask.is_none());
    let operands = operands.flat_map(|memory: &Memory| {
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
