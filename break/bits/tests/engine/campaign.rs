//! The engine's guarantees, on several programs: the injections are the planned ones, with every method and stepper.

use crate::support::{Engine, compiled, draw, possible, program, timeless, written};
use bit_flips::engine_messages::{Injected, Method, Program, Stepper};
use model::flip::{Ending, FlipType};

fn lines() -> Vec<u8> {
    (0..12).map(|n| format!("line number {n} of the input\n")).collect::<String>().into_bytes()
}

fn programs() -> Vec<(&'static str, Program)> {
    let input = || Some(written("input", &lines()));
    let with = |name: &str, options: &[&str], stdin| program(&[&compiled(name, options).to_string_lossy()], stdin);
    vec![
        ("sums", with("sums", &[], input())),
        ("sums, static", with("sums", &["-static"], input())),
        ("sums, at a fixed address", with("sums", &["-no-pie", "-fno-pie"], input())),
        ("strings", with("strings", &[], None)),
        ("files", with("files", &[], input())),
        ("elsewhere", with("elsewhere", &[], None)),
        ("numbers", with("numbers", &["-O3", "-march=native"], None)),
    ]
}

fn same(name: &str, one: Vec<Injected>, other: Vec<Injected>) {
    assert_eq!(one.len(), other.len(), "{name}");
    for (mut one, mut other) in one.into_iter().zip(other) {
        // arbitrary values replace memory that contains what `fstat` returns, which differs between engines: inode
        // numbers, times and the user
        if ["files", "elsewhere"].contains(&name) {
            one.effect.hit.clear();
            other.effect.hit.clear();
        }
        assert_eq!(timeless(one), timeless(other), "{name}");
    }
}

#[test]
fn the_code_cache_and_both_steppers_agree() {
    if !possible() {
        return;
    }
    for (name, program) in programs() {
        let mut engines = [Stepper::Step, Stepper::Block, Stepper::Cache].map(|stepper| {
            let mut engine = Engine::start();
            let profile = engine.begin(&Program { stepper, ..program.clone() }).unwrap();
            (engine, profile)
        });
        let draw = draw(&FlipType::ALL, 6);
        let [(step, by_step), others @ ..] = &mut engines;
        let (expected, _) = step.inject(&draw, Method::Fork, &[], &[]);
        for (engine, profile) in others {
            assert_eq!(
                (profile.instructions, profile.sites, &profile.eligible, &profile.golden),
                (by_step.instructions, by_step.sites, &by_step.eligible, &by_step.golden),
                "{name}"
            );
            let (injected, _) = engine.inject(&draw, Method::Fork, &[], &[]);
            same(name, injected, expected.clone());
        }
    }
}

#[test]
fn a_flip_has_the_same_effect_in_a_fork_and_in_a_fresh_process() {
    if !possible() {
        return;
    }
    for (name, program) in programs() {
        let mut engine = Engine::start();
        engine.begin(&program).unwrap();
        let draw = draw(&FlipType::ALL, 4);
        let (forked, _) = engine.inject(&draw, Method::Fork, &[], &[]);
        let (fresh, _) = engine.inject(&draw, Method::Fresh, &[], &[]);
        same(name, forked, fresh);
    }
}

#[test]
fn controls_are_golden_and_every_planned_flip_is_accounted_for() {
    if !possible() {
        return;
    }
    for (name, program) in programs() {
        let mut engine = Engine::start();
        let profile = engine.begin(&program).unwrap();
        let draw = draw(&FlipType::ALL, 30);
        let (all, _) = engine.inject(&draw, Method::Fork, &[], &[]);
        let (controls, flips): (Vec<_>, Vec<_>) = all.into_iter().partition(|injected| injected.injection.is_none());
        assert_eq!(controls.len(), 8, "{name}");
        for control in controls {
            assert_eq!((control.output, control.effect.ending), (None, Ending::Exit(0)), "{name}");
        }
        let planned = profile.eligible.iter().filter(|(_, eligible)| *eligible > 0).count() * 30;
        assert_eq!(flips.len(), planned, "{name}");
        for (index, flip) in flips.iter().enumerate() {
            assert_eq!(flip.id as usize, index, "{name}: ids without a gap");
            assert!(flip.effect.activated || !flip.effect.hit.is_empty(), "{name}: a reason");
        }
        let deviating = flips.iter().filter(|flip| flip.output.is_some()).count();
        assert!(deviating > flips.len() / 10, "{name}: only {deviating} of {} flips did anything", flips.len());
    }
}

#[test]
fn code_that_is_loaded_while_the_program_runs_is_hit_as_well() {
    if !possible() {
        return;
    }
    // without -lm: the library must come by dlopen alone
    let mut program = program(&[&crate::support::compiled_alone("loads").to_string_lossy()], None);
    program.sites.libraries = vec!["libm".into()];
    let mut engine = Engine::start();
    engine.begin(&program).unwrap();
    let draw = draw(&[FlipType::Cf, FlipType::Wreg, FlipType::Text], 40);
    let (forked, _) = engine.inject(&draw, Method::Fork, &[], &[]);
    let hits: Vec<_> = forked.iter().filter_map(|injected| injected.injection.as_ref()).collect();
    assert_eq!(hits.len(), 120);
    assert!(hits.iter().all(|injection| injection.module == "libm.so.6"));
}

#[test]
fn the_same_seed_gives_the_same_flips_and_finished_ones_are_skipped() {
    if !possible() {
        return;
    }
    let (name, program) = programs().remove(0);
    let mut engine = Engine::start();
    engine.begin(&program).unwrap();
    let draw = draw(FlipType::PAPER, 20);
    let (whole, _) = engine.inject(&draw, Method::Fork, &[], &[]);
    let done: Vec<u32> = (0..whole.len() as u32).filter(|id| id % 3 == 0).collect();
    // another engine, as after a crash
    let mut engine = Engine::start();
    engine.begin(&program).unwrap();
    let (rest, _) = engine.inject(&draw, Method::Fork, &done, &[]);
    let (again, _) = engine.inject(&draw, Method::Fork, &[], &done);
    let mut both: Vec<Injected> = rest.into_iter().chain(again).collect();
    both.sort_by_key(|injected| injected.id);
    same(name, whole, both.clone());
    let mut other = draw.clone();
    other.seed += 1;
    let (otherwise, _) = engine.inject(&other, Method::Fork, &[], &[]);
    let positions = |all: &[Injected]| all.iter().map(|i| i.injection.as_ref().map(|i| i.position)).collect::<Vec<_>>();
    assert_ne!(positions(&both), positions(&otherwise), "another seed draws others");
}
