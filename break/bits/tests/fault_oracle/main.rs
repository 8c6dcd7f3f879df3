//! Every flip has the effect that the processor would produce.
//!
//! Two processes start in the same random state. In one, the engine applies the flip. In the other, the oracle, it is
//! produced by other means: other instructions access the wrong address, or values are set by hand between plain steps.
//! Then both run on, and all their registers and memory, or the signals they got, must be the same. A failure prints
//! the seed; `FAULT_SEED=N` repeats it, `FAULT_CASES=N` sets the number of cases.
#![allow(unsafe_code)] // test processes are made by hand; each place states the reason

mod by_hand;
mod pair;
mod scratch;
mod shapes;
mod single;
mod vectors;

use bit_flips::inject::Fault;
use bit_flips::processor::instruction::Instruction;
use by_hand::{by_hand, unrepeatable};
use model::flip::FlipType;
use model::random::Random;
use pair::{Pair, compare, start};
use scratch::{CODE, PAGE};
use shapes::{Needs, Shape};
use std::io::Write;

/// Runs `check` for each shape and seed that this processor allows.
fn each(what: &str, cases: u64, mut check: impl FnMut(&mut Pair, &mut Random, &Shape) -> Result<(), String>) {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let only = number("FAULT_SEED");
    let cases = number("FAULT_CASES").unwrap_or(cases);
    let mut pair = Pair::new();
    let (possible, impossible): (Vec<Shape>, Vec<Shape>) =
        shapes::all().into_iter().partition(|shape| shape.needs <= Needs::present());
    for shape in impossible {
        skipped(&format!("{what}: this processor has no {:?} for {}", shape.needs, shape.text));
    }
    for (index, shape) in possible.iter().enumerate() {
        assert_eq!(Instruction::decode(CODE, shape.code).unwrap().operands(FlipType::Cf), 1);
        for case in 0..cases {
            let seed = (index as u64) << 32 | case;
            if only.is_none_or(|only| only == seed) {
                let found = check(&mut pair, &mut Random(seed), shape);
                found.unwrap_or_else(|why| panic!("{}: FAULT_SEED={seed}: {why}", shape.text));
            }
        }
    }
    say(&format!("{what}: {} compared, {} missed", pair.compared, pair.missed));
    assert!(only.is_some() || pair.compared > 20 * pair.missed, "too many flips missed");
}

/// Reports what cannot run here, so that it is counted.
pub fn skipped(why: &str) {
    say(&format!("skipped: {}: {why}", std::thread::current().name().unwrap_or("?")));
}

pub fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}"); // not captured
}

#[test]
fn a_wrong_address_has_the_effect_of_a_real_access() {
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
            if start.registers.r15.abs_diff(CODE) < PAGE {
                continue; // code that differs
            }
            if !shape.frame {
                start.registers.rbp = start.registers.r15;
            }
            let fault = Fault { kind, operand, bit, iteration: start.iteration, seed: 0 };
            let Some((mut faulty, signal)) = pair.inject(shape, &start, &fault) else {
                let excused = shape.masked || shape.text.ends_with("cmpsb");
                assert!(excused, "{kind} {operand} bit {bit} of {right:#x} was not applied");
                pair.missed += 1;
                continue;
            };
            pair.oracle.set(oracle, &start.memory, &start.registers);
            let mut native = pair.oracle.run();
            let about = format!("{kind} {operand} bit {bit} of {right:#x}, iteration {}", start.iteration);
            compare(shape, &mut faulty, &mut native, false, signal).map_err(|why| format!("{about}: {why}"))?;
            if signal != 0 && !shape.repeated {
                assert_eq!(faulty.registers.rip, CODE, "it did not run: {about}");
                assert_eq!(faulty.registers.rsp, start.registers.rsp, "{about}");
            }
            pair.compared += 1;
            pair.renew([&faulty, &native]);
        }
        Ok(())
    });
}

#[test]
fn all_other_flips_have_the_effect_of_values_set_by_hand() {
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
                let fault = Fault { kind, operand, bit, iteration: start.iteration, seed: 0 };
                let Some((mut faulty, signal)) = pair.inject(shape, &start, &fault) else {
                    return Err(format!("{kind} {operand} bit {bit} was not applied"));
                };
                let hit = instruction.operand(kind, operand).unwrap();
                let mut native = by_hand(&mut pair.oracle, shape, &start, &fault, hit, address);
                let about = format!("{kind} {operand} bit {bit}, iteration {}", start.iteration);
                compare(shape, &mut faulty, &mut native, true, signal).map_err(|why| format!("{about}: {why}"))?;
                pair.compared += 1;
                pair.renew([&faulty, &native]);
            }
        }
        Ok(())
    });
}
