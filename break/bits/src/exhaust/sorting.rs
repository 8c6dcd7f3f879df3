//! Sorts the flips of one instruction after the other into classes.

use super::{Class, Step, Stretch};
use crate::access::Span;
use crate::defuse::{Next, Nexts, Spot, Treats, bytes};
use crate::fault;
use crate::flow::Flow;
use crate::instruction::{Instruction, Operand};
use crate::mappings::Mappings;
use crate::plan::Planned;
use crate::profile::Started;
use crate::protocol::{Census, Kind, Weight};
use crate::refusal::Refusal;
use crate::strike::Blow;
use crate::tracee::Registers;
use iced_x86::Register;
use model::flip::FlipType;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// The direction flag.
const BACKWARDS: u64 = 1 << 10;

/// Why a flip needs no trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Why {
    Gone,
    Same,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key {
    /// A bit of a place until the instruction that uses it.
    Until(Spot, u8, u32),
    /// A signal after so many system calls.
    Crash(i32, u32),
}

/// The classes so far, and the sums of the census.
pub(super) struct Sorting<'a> {
    stretch: &'a Stretch<'a>,
    /// Position of the first step.
    first: u64,
    classes: Vec<Class>,
    by_key: HashMap<Key, usize>,
    kinds: BTreeMap<FlipType, Kind>,
}

impl<'a> Sorting<'a> {
    pub fn new(stretch: &'a Stretch<'a>, first: u64) -> Sorting<'a> {
        let kinds = stretch.types.iter().map(|kind| (*kind, Kind::of(*kind))).collect();
        Sorting { stretch, first, classes: Vec::new(), by_key: HashMap::new(), kinds }
    }

    /// All bits of all operands of a type: calls `each` with operand and bit, and the share of the type's flips that one is.
    fn bits(&self, instruction: &Instruction, kind: FlipType) -> Vec<(usize, u32, f64)> {
        let operands = instruction.operands(kind);
        (0..operands)
            .flat_map(|operand| {
                let bits = self.stretch.bits.bits(instruction.width(kind, operand));
                let share = 1.0 / (operands as f64 * f64::from(bits));
                (0..bits).map(move |bit| (operand, bit, share))
            })
            .collect()
    }

    /// Control flow, addresses and code: what they lead to follows from the state before the instruction, of which a repeated one has
    /// left the memory behind. `calls`: system calls so far, if a crash is not caught.
    pub fn forward(
        &mut self,
        started: &Started,
        instruction: &Instruction,
        registers: &Registers,
        position: u64,
        calls: Option<u32>,
        iterations: u64,
    ) -> Result<(), Refusal> {
        let Stretch { types, merge, .. } = *self.stretch;
        let merge = merge && instruction.flow() != Flow::Repeated;
        let tracee = &started.golden.tracee;
        let crash = |signal: i32| calls.map(|calls| Key::Crash(signal, calls));
        let mappings = Mappings::of(tracee.pid)?;
        for kind in [FlipType::Cf, FlipType::Waddr, FlipType::Raddr, FlipType::Text]
            .into_iter()
            .filter(|kind| types.contains(kind))
        {
            if !instruction.eligible(kind) || (iterations == 0 && instruction.idle_operand(kind).is_none()) {
                continue;
            }
            let times = iterations.max(1);
            let every = self.bits(instruction, kind).into_iter();
            for (iteration, (operand, bit, share)) in every.flat_map(|one| (0..times).map(move |n| (n, one))) {
                let share = share / times as f64;
                let planned = planned(position, instruction, kind, operand, bit, iteration);
                let key = match instruction.operand(kind, operand) {
                    Some(Operand::InstructionPointer) => {
                        let target = instruction.ip() ^ 1 << bit;
                        let there = mappings.at(target).is_some_and(|mapping| mapping.executable);
                        if there { None } else { crash(libc::SIGSEGV) }
                    }
                    Some(Operand::Address(memory)) => {
                        let registers = at_iteration(instruction, registers, iteration);
                        let Some(here) = Span::of(tracee, memory, &registers)? else {
                            // nothing is accessed: the trial tells why there was nothing to flip
                            self.add(None, planned, kind, share);
                            continue;
                        };
                        let there = here.moved(here.address ^ 1 << bit);
                        match fault::of_access(tracee, memory, there, kind == FlipType::Waddr)? {
                            Some(fault) => crash(fault.signal),
                            None if merge && kind == FlipType::Raddr && here.read(tracee)? == there.read(tracee)? => {
                                self.settle(kind, share, Why::Same);
                                continue;
                            }
                            None => None,
                        }
                    }
                    _ => None,
                };
                self.add(key, planned, kind, share);
            }
        }
        Ok(())
    }

    /// Registers and memory: what comes next decides.
    pub fn backward(&mut self, steps: &[Step]) {
        let mut nexts = Nexts::default();
        let mut treated: HashMap<*const Instruction, Treats> = HashMap::new();
        for (number, step) in steps.iter().enumerate().rev() {
            let treats = treated.entry(Rc::as_ptr(&step.instruction)).or_insert_with(|| Treats::of(&step.instruction));
            if step.struck {
                self.values(number, step, &nexts, &[FlipType::Wreg, FlipType::Wval]);
            }
            nexts.back(number as u32, &step.instruction, treats, &step.registers);
            if step.struck {
                self.values(number, step, &nexts, &[FlipType::Rreg, FlipType::Rval]);
            }
        }
    }

    fn values(&mut self, number: usize, step: &Step, nexts: &Nexts, kinds: &[FlipType]) {
        let instruction = &step.instruction;
        let position = self.first + number as u64;
        let types = self.stretch.types;
        for kind in kinds.iter().copied().filter(|kind| types.contains(kind) && instruction.eligible(*kind)) {
            if step.iterations == 0 && instruction.idle_operand(kind).is_none() {
                continue;
            }
            for (operand, bit, share) in self.bits(instruction, kind) {
                if step.iterations != 1 {
                    self.repeated(step, position, kind, operand, bit, share);
                    continue;
                }
                let planned = planned(position, instruction, kind, operand, bit, 0);
                let Some(spot) = spot(instruction, &step.registers, kind, operand, bit) else {
                    self.add(None, planned, kind, share);
                    continue;
                };
                match nexts.of(spot) {
                    Next::Gone if self.stretch.merge => self.settle(kind, share, Why::Gone),
                    Next::Gone => self.add(None, planned, kind, share),
                    Next::Use(at) => self.add(Some(Key::Until(spot, (bit % 8) as u8, at)), planned, kind, share),
                }
            }
        }
    }

    /// Each iteration by itself.
    fn repeated(&mut self, step: &Step, position: u64, kind: FlipType, operand: usize, bit: u32, share: f64) {
        match (step.iterations, step.instruction.idle_operand(kind)) {
            (0, Some(idle)) if operand == usize::from(idle) => {
                // the counter is the only operand then: it has the shares of all
                let share = share * step.instruction.operands(kind) as f64;
                self.add(None, planned(position, &step.instruction, kind, operand, bit, 0), kind, share);
            }
            (0, _) => {}
            (iterations, _) => {
                for iteration in 0..iterations {
                    let planned = planned(position, &step.instruction, kind, operand, bit, iteration);
                    self.add(None, planned, kind, share / iterations as f64);
                }
            }
        }
    }

    fn settle(&mut self, kind: FlipType, share: f64, why: Why) {
        let of = self.kinds.entry(kind).or_insert_with(|| Kind::of(kind));
        of.flips += 1;
        of.share += share;
        let (flips, shares) = match why {
            Why::Gone => (&mut of.gone, &mut of.gone_share),
            Why::Same => (&mut of.same, &mut of.same_share),
        };
        *flips += 1;
        *shares += share;
    }

    /// To the class with that key; without one, it is a class by itself.
    fn add(&mut self, key: Option<Key>, planned: Planned, kind: FlipType, share: f64) {
        let of = self.kinds.entry(kind).or_insert_with(|| Kind::of(kind));
        of.flips += 1;
        of.share += share;
        let next = self.classes.len();
        let key = key.filter(|_| self.stretch.merge);
        let at = key.map_or(next, |key| *self.by_key.entry(key).or_insert(next));
        if at == next {
            self.classes.push(Class { member: planned, weights: Vec::new() });
        }
        let weights = &mut self.classes[at].weights;
        match weights.iter_mut().find(|weight| weight.kind == kind) {
            Some(weight) => {
                weight.flips += 1;
                weight.share += share;
            }
            None => weights.push(Weight { kind, flips: 1, share }),
        }
    }

    pub fn done(mut self) -> (Vec<Class>, Census) {
        self.classes.sort_by_key(|class| class.member.position);
        for (id, class) in self.classes.iter_mut().enumerate() {
            class.member.id = id as u32;
        }
        let census = Census { classes: self.classes.len() as u64, kinds: self.kinds.into_values().collect() };
        (self.classes, census)
    }
}

/// As an iteration of a repeated instruction finds them: its pointers have moved on.
fn at_iteration(instruction: &Instruction, registers: &Registers, iteration: u64) -> Registers {
    let bytes = iteration * instruction.memory().first().map_or(0, |memory| u64::from(memory.size));
    let moved = |pointer: u64| match registers.eflags & BACKWARDS {
        0 => pointer.wrapping_add(bytes),
        _ => pointer.wrapping_sub(bytes),
    };
    Registers { rsi: moved(registers.rsi), rdi: moved(registers.rdi), ..*registers }
}

fn planned(
    position: u64,
    instruction: &Instruction,
    kind: FlipType,
    operand: usize,
    bit: u32,
    iteration: u64,
) -> Planned {
    let blow = Blow { kind, operand, bit, iteration, seed: 0 };
    Planned { id: 0, blow: Some(blow), position, ip: instruction.ip() }
}

/// The place of an operand's bit. None: it depends on more than the registers.
fn spot(instruction: &Instruction, registers: &Registers, kind: FlipType, operand: usize, bit: u32) -> Option<Spot> {
    match instruction.operand(kind, operand)? {
        Operand::Register(register) if followed(register) => bytes(register).get(bit as usize / 8).copied(),
        Operand::Flags(mask) => (0..32).filter(|place| mask >> place & 1 == 1).nth(bit as usize).map(Spot::Flag),
        Operand::Value(memory) if memory.mask.is_none() => {
            Some(Spot::Memory(memory.address(registers)?.wrapping_add(u64::from(bit / 8))))
        }
        _ => None,
    }
}

fn followed(register: Register) -> bool {
    register.is_gpr() || register.is_vector_register()
}
