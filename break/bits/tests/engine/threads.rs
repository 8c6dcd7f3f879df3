//! Programs of several threads: the golden process runs them one after the other, its forks all at once.

use crate::support::{Engine, compiled, draw, possible, program, timeless};
use bit_flips::engine_messages::{Injected, Method, Program, Request, Stepper};
use model::flip::{BitPolicy, Ending, FlipType};
use std::path::PathBuf;
use std::sync::OnceLock;

/// What they write does not depend on the order in which their threads run.
const ORDERLY: [&str; 9] = ["queues", "lives", "barriers", "batons", "atomics", "naps", "outlived", "kinds", "bare"];

fn act(act: &str) -> Program {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    let path = MADE.get_or_init(|| compiled("threads", &["-pthread"]));
    program(&[&path.to_string_lossy(), act], None)
}

#[test]
fn a_static_program_with_threads_is_studied_like_any_other() {
    if !possible() {
        return;
    }
    let path = compiled("threads", &["-pthread", "-static"]);
    for name in ["queues", "outlived"] {
        let mut engine = Engine::start();
        engine.begin(&program(&[&path.to_string_lossy(), name], None)).unwrap();
        let (all, _) = engine.inject(&draw(FlipType::PAPER, 5), Method::Fork, &[], &[]);
        assert_eq!(all.len(), 43, "{name}");
        for control in all.iter().filter(|one| one.injection.is_none()) {
            assert_eq!(control.output, None, "{name}: {control:?}");
        }
    }
}

/// The properties of a flip that are known before it is made.
fn planned(all: &[Injected]) -> Vec<Option<[u64; 5]>> {
    all.iter()
        .map(|one| one.injection.as_ref())
        .map(|flip| flip.map(|flip| [flip.id.into(), flip.kind as u64, flip.position, flip.ip, flip.bit.into()]))
        .collect()
}

#[test]
fn both_steppers_execute_the_same_instructions_in_the_same_order() {
    if !possible() {
        return;
    }
    for name in ORDERLY {
        let block = act(name);
        let step = Program { stepper: Stepper::Step, ..block.clone() };
        let (mut one, mut other) = (Engine::start(), Engine::start());
        let (first, second) = (one.begin(&block).unwrap(), other.begin(&step).unwrap());
        assert_eq!(
            (first.instructions, first.sites, &first.eligible, &first.golden, &first.replies),
            (second.instructions, second.sites, &second.eligible, &second.golden, &second.replies),
            "{name}"
        );
        assert!(first.remarks.iter().any(|remark| remark.contains("threads take turns")), "{:?}", first.remarks);
        let draw = draw(&FlipType::ALL, 1);
        let (forked, _) = one.inject(&draw, Method::Fork, &[], &[]);
        let (stepped, _) = other.inject(&draw, Method::Fork, &[], &[]);
        assert_eq!(planned(&forked), planned(&stepped), "{name}");
    }
}

#[test]
fn controls_are_golden_and_every_planned_flip_is_accounted_for() {
    if !possible() {
        return;
    }
    for name in ORDERLY {
        let mut engine = Engine::start();
        let profile = engine.begin(&act(name)).unwrap();
        let mut draw = draw(&FlipType::ALL, 10);
        draw.controls = 40;
        let (all, _) = engine.inject(&draw, Method::Fork, &[], &[]);
        let kinds = profile.eligible.iter().filter(|(_, eligible)| *eligible > 0).count();
        assert_eq!(all.len(), kinds * 10 + draw.controls as usize, "{name}");
        let ending = Ending::Exit(if name == "outlived" { 3 } else { 0 });
        for control in all.iter().filter(|one| one.injection.is_none()) {
            assert_eq!((&control.output, &control.effect.ending), (&None, &ending), "{name}: {control:?}");
        }
        for flip in all.iter().filter(|one| one.injection.is_some()) {
            assert!(flip.effect.activated || !flip.effect.hit.is_empty(), "{name}: a reason");
        }
        assert!(all.iter().any(|flip| flip.output.is_some()), "{name}: no flip did anything");
    }
}

#[test]
fn output_that_depends_on_the_order_of_threads_shows_in_the_controls() {
    if !possible() {
        return;
    }
    let mut engine = Engine::start();
    engine.begin(&act("restless")).unwrap();
    let mut draw = draw(&[FlipType::Cf], 1);
    draw.controls = 20;
    let (all, _) = engine.inject(&draw, Method::Fork, &[], &[]);
    // a copy between the two sleeps would start the long one again with the second short one
    let deviating = all.iter().filter(|one| one.injection.is_none() && one.output.is_some()).count();
    assert!((1..20).contains(&deviating), "{deviating} of 20");
}

#[test]
fn a_fresh_process_reaches_the_points_of_the_forks() {
    if !possible() {
        return;
    }
    for name in ORDERLY {
        let mut engine = Engine::start();
        engine.begin(&act(name)).unwrap();
        let mut draw = draw(FlipType::PAPER, 1);
        draw.controls = 3;
        let (forked, _) = engine.inject(&draw, Method::Fork, &[], &[]);
        let (fresh, _) = engine.inject(&draw, Method::Fresh, &[], &[]);
        assert_eq!(planned(&forked), planned(&fresh), "{name}");
        for control in fresh.iter().filter(|one| one.injection.is_none()) {
            assert_eq!(control.output, None, "{name}: {control:?}");
        }
    }
}

#[test]
fn a_flip_has_the_same_effect_where_order_changes_nothing() {
    if !possible() {
        return;
    }
    let mut program = act("single");
    program.sites.handlers = vec!["writes".into()];
    let by_step = Program { stepper: Stepper::Step, ..program.clone() };
    let (mut block, mut step) = (Engine::start(), Engine::start());
    let golden = block.begin(&program).unwrap().golden.streams[0].bytes.len();
    step.begin(&by_step).unwrap();
    let draw = draw(FlipType::PAPER, 8);
    let (forked, _) = block.inject(&draw, Method::Fork, &[], &[]);
    let stepped = step.inject(&draw, Method::Fork, &[], &[]).0;
    let fresh = block.inject(&draw, Method::Fresh, &[], &[]).0;
    assert!(forked.iter().any(|flip| flip.output.is_some()));
    for ((one, other), third) in forked.into_iter().zip(stepped).zip(fresh) {
        let one = comparable(one, golden);
        assert_eq!(one, comparable(other, golden), "by steps");
        assert_eq!(one, comparable(third, golden), "fresh");
    }
}

/// Without output that differs between runs: a hanging process writes until it is ended, and one that writes too much
/// writes memory in which the kernel has left times.
fn comparable(injected: Injected, golden: usize) -> Injected {
    let mut injected = timeless(injected);
    let hangs = injected.effect.ending == Ending::Hang;
    for stream in injected.output.iter_mut().flat_map(|output| &mut output.streams) {
        if hangs || stream.bytes.len() > golden {
            stream.bytes.clear();
        }
    }
    injected
}

#[test]
fn threads_that_cannot_be_repeated_are_refused() {
    if !possible() {
        return;
    }
    for (name, words) in [
        ("signals", "the undisturbed program got signal 10"),
        ("inherits", "priority inheritance"),
        ("robust", "a robust lock that it holds"),
        ("many", "more than 64 threads at a time"),
    ] {
        let refusal = Engine::start().begin(&act(name)).expect_err(name);
        assert!(refusal.contains(words), "{name}: {refusal}");
    }
    // two undisturbed runs may write the same output by chance; then the difference shows when the program is stepped
    let refusal = Engine::start().begin(&act("racing")).expect_err("racing");
    assert!(refusal.contains("different output"), "{refusal}");
    let mut engine = Engine::start();
    engine.begin(&act("single")).unwrap();
    let (types, skip, only) = (vec![FlipType::Cf], Vec::new(), Vec::new());
    let every = Request::Exhaust { reply: 0, types, bits: BitPolicy::Full, classes: true, skip, only };
    let refusal = engine.refused(&every);
    assert!(refusal.contains("several threads cannot be sorted"), "{refusal}");
}

#[test]
fn the_same_seed_draws_the_same_flips_in_every_campaign() {
    if !possible() {
        return;
    }
    let draw = draw(FlipType::PAPER, 4);
    let mut campaigns = Vec::new();
    for _ in 0..3 {
        let mut engine = Engine::start();
        let profile = engine.begin(&act("queues")).unwrap();
        let (all, _) = engine.inject(&draw, Method::Fork, &[], &[]);
        campaigns.push((profile.instructions, planned(&all)));
    }
    assert!(campaigns.windows(2).all(|two| two[0] == two[1]));
}
