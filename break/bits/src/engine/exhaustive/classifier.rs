//! Sorts the flips of one instruction after the other into classes.

use super::{FlipClass, FlipRange, Step};
use crate::engine::golden_run::GoldenRun;
use crate::engine::refusal::Refusal;
use crate::engine_messages::{Totals, TypeTotals, Weight};
use crate::inject::Fault;
use crate::plan::PlannedFlip;
use crate::processor::access_fault;
use crate::processor::control_flow::ControlFlow;
use crate::processor::def_use::{Accesses, Location, NextAccess, NextAccesses, bytes};
use crate::processor::instruction::{Instruction, Operand};
use crate::processor::memory_operand::ByteSpan;
use crate::program::mappings::Mappings;
use iced_x86::Register;
use model::flip::FlipType;
use sandbox::tracee::Registers;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// The direction flag.
const BACKWARDS: u64 = 1 << 10;

/// Why a flip has no effect and needs no trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum NoEffect {
    Dead,
    SameValue,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ClassKey {
    /// A bit of a location until the instruction that uses it.
    UntilUse(Location, u8, u32),
    /// A signal after this number of system calls.
    Crash(i32, u32),
}

/// The classes so far, and the totals by type.
pub(super) struct Classifier<'a> {
    range: &'a FlipRange<'a>,
    /// Position of the first step.
    first: u64,
    classes: Vec<FlipClass>,
    by_key: HashMap<ClassKey, usize>,
    kinds: BTreeMap<FlipType, TypeTotals>,
}

impl<'a> Classifier<'a> {
    pub fn new(range: &'a FlipRange<'a>, first: u64) -> Classifier<'a> {
        let kinds = range.types.iter().map(|kind| (*kind, TypeTotals::of(*kind))).collect();
        Classifier { range, first, classes: Vec::new(), by_key: HashMap::new(), kinds }
    }

    /// All bits of all operands of a type: operand, bit, and the flip's share among the type's flips of the
    /// instruction.
    fn bits(&self, instruction: &Instruction, kind: FlipType) -> Vec<(usize, u32, f64)> {
        let operands = instruction.operands(kind);
        (0..operands)
            .flat_map(|operand| {
                let bits = self.range.bits.bits(instruction.width(kind, operand));
                let share = 1.0 / (operands as f64 * f64::from(bits));
                (0..bits).map(move |bit| (operand, bit, share))
            })
            .collect()
    }

    /// Adds flips of the instruction pointer, addresses and code, whose effect follows from the state before the
    /// instruction. `calls`: the number of system calls so far, if the program does not handle crashes.
    pub fn add_by_state(
        &mut self,
        run: &GoldenRun,
        instruction: &Instruction,
        registers: &Registers,
        position: u64,
        calls: Option<u32>,
        iterations: u64,
    ) -> Result<(), Refusal> {
        let FlipRange { types, merge, .. } = *self.range;
        let merge = merge && instruction.flow() != ControlFlow::Repeated;
        let tracee = &run.golden.tracee;
        let crash = |signal: i32| calls.map(|calls| ClassKey::Crash(signal, calls));
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
                        let Some(here) = ByteSpan::of(tracee, memory, &registers)? else {
                            // nothing is accessed: the trial reports the reason
                            self.add(None, planned, kind, share);
                            continue;
                        };
                        let there = here.moved(here.address ^ 1 << bit);
                        match access_fault::of_access(tracee, memory, there, kind == FlipType::Waddr)? {
                            Some(fault) => crash(fault.signal),
                            None if merge && kind == FlipType::Raddr && here.read(tracee)? == there.read(tracee)? => {
                                self.add_without_effect(kind, share, NoEffect::SameValue);
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

    /// Adds flips of registers and memory, whose class is determined by the next access.
    pub fn add_by_next_access(&mut self, steps: &[Step]) {
        let mut nexts = NextAccesses::default();
        let mut cache: HashMap<*const Instruction, Accesses> = HashMap::new();
        for (number, step) in steps.iter().enumerate().rev() {
            let accesses =
                cache.entry(Rc::as_ptr(&step.instruction)).or_insert_with(|| Accesses::of(&step.instruction));
            if step.is_hit {
                self.add_values(number, step, &nexts, &[FlipType::Wreg, FlipType::Wval]);
            }
            nexts.step_back(number as u32, &step.instruction, accesses, &step.registers);
            if step.is_hit {
                self.add_values(number, step, &nexts, &[FlipType::Rreg, FlipType::Rval]);
            }
        }
    }

    fn add_values(&mut self, number: usize, step: &Step, nexts: &NextAccesses, kinds: &[FlipType]) {
        let instruction = &step.instruction;
        let position = self.first + number as u64;
        let types = self.range.types;
        for kind in kinds.iter().copied().filter(|kind| types.contains(kind) && instruction.eligible(*kind)) {
            if step.iterations == 0 && instruction.idle_operand(kind).is_none() {
                continue;
            }
            for (operand, bit, share) in self.bits(instruction, kind) {
                if step.iterations != 1 {
                    self.add_repeated(step, position, kind, operand, bit, share);
                    continue;
                }
                let planned = planned(position, instruction, kind, operand, bit, 0);
                let Some(location) = location(instruction, &step.registers, kind, operand, bit) else {
                    self.add(None, planned, kind, share);
                    continue;
                };
                match nexts.of(location) {
                    NextAccess::Dead if self.range.merge => self.add_without_effect(kind, share, NoEffect::Dead),
                    NextAccess::Dead => self.add(None, planned, kind, share),
                    NextAccess::Use(at) => {
                        self.add(Some(ClassKey::UntilUse(location, (bit % 8) as u8, at)), planned, kind, share)
                    }
                }
            }
        }
    }

    /// Adds each iteration as a class of its own.
    fn add_repeated(&mut self, step: &Step, position: u64, kind: FlipType, operand: usize, bit: u32, share: f64) {
        match (step.iterations, step.instruction.idle_operand(kind)) {
            (0, Some(idle)) if operand == usize::from(idle) => {
                // the counter is the only operand then, and has the shares of all
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

    fn add_without_effect(&mut self, kind: FlipType, share: f64, why: NoEffect) {
        let of = self.kinds.entry(kind).or_insert_with(|| TypeTotals::of(kind));
        of.flips += 1;
        of.share += share;
        let (flips, shares) = match why {
            NoEffect::Dead => (&mut of.dead, &mut of.dead_share),
            NoEffect::SameValue => (&mut of.same, &mut of.same_share),
        };
        *flips += 1;
        *shares += share;
    }

    /// Adds a flip to the class with this key, or as a class of its own without one.
    fn add(&mut self, key: Option<ClassKey>, planned: PlannedFlip, kind: FlipType, share: f64) {
        let of = self.kinds.entry(kind).or_insert_with(|| TypeTotals::of(kind));
        of.flips += 1;
        of.share += share;
        let next = self.classes.len();
        let key = key.filter(|_| self.range.merge);
        let at = key.map_or(next, |key| *self.by_key.entry(key).or_insert(next));
        if at == next {
            self.classes.push(FlipClass { member: planned, weights: Vec::new() });
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

    pub fn finish(mut self) -> (Vec<FlipClass>, Totals) {
        self.classes.sort_by_key(|class| class.member.position);
        for (id, class) in self.classes.iter_mut().enumerate() {
            class.member.id = id as u32;
        }
        let totals = Totals { classes: self.classes.len() as u64, kinds: self.kinds.into_values().collect() };
        (self.classes, totals)
    }
}

/// Registers at an iteration of a repeated instruction, which has advanced its pointers.
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
) -> PlannedFlip {
    let fault = Fault { kind, operand, bit, iteration, seed: 0 };
    PlannedFlip { id: 0, fault: Some(fault), position, ip: instruction.ip() }
}

/// The location of an operand's bit. None: it depends on more than general registers.
fn location(
    instruction: &Instruction,
    registers: &Registers,
    kind: FlipType,
    operand: usize,
    bit: u32,
) -> Option<Location> {
    match instruction.operand(kind, operand)? {
        Operand::Register(register) if is_tracked(register) => bytes(register).get(bit as usize / 8).copied(),
        Operand::Flags(mask) => {
            (0..32).filter(|position| mask >> position & 1 == 1).nth(bit as usize).map(Location::Flag)
        }
        Operand::Value(memory) if memory.mask.is_none() => {
            Some(Location::Memory(memory.address(registers)?.wrapping_add(u64::from(bit / 8))))
        }
        _ => None,
    }
}

fn is_tracked(register: Register) -> bool {
    register.is_gpr() || register.is_vector_register()
}
