//! Every flip there is: classes against trying each by itself, and draws against the whole.

use crate::support::{Engine, compiled, draw, possible, program, skipped, written};
use bit_flips::engine_messages::{Injected, Method, Request, Sites, Totals};
use model::flip::{BitPolicy, Ending, FlipType};
use std::collections::{BTreeMap, HashSet};

/// Flips and shares by type and outcome.
type Tally = BTreeMap<(FlipType, String), (u64, f64)>;

fn engine() -> Engine {
    let mut program = program(&[&compiled("reply", &[]).to_string_lossy()], Some(written("line", b"abc")));
    program.sites = Sites { handlers: vec!["handle".into()], ..Sites::default() };
    let mut engine = Engine::start();
    let profile = engine.begin(&program).unwrap();
    assert_eq!(profile.replies.len(), 1, "one reply");
    engine
}

/// Without what merely passes the time, and what depends on where a value came from.
fn effect_of(injected: &Injected) -> String {
    let ending = match &injected.effect.ending {
        Ending::Exit(_) => "exit",
        Ending::Signal(_) => "signal",
        Ending::Hang => "hang",
    };
    let output = injected.output.as_ref().map(|output| format!("{:?}", output.streams));
    format!("{ending} {}", output.unwrap_or_else(|| "golden".into()))
}

fn tally(totals: &Totals, all: &[Injected]) -> Tally {
    let mut tally = Tally::new();
    let mut add = |kind, what: &str, flips, share: f64| {
        let sum = tally.entry((kind, what.to_owned())).or_insert((0, 0.0));
        sum.0 += flips;
        sum.1 += share;
    };
    for kind in &totals.kinds {
        add(kind.kind, "exit golden", kind.dead + kind.same, kind.dead_share + kind.same_share);
    }
    for injected in all {
        for weight in &injected.stands_for {
            add(weight.kind, &effect_of(injected), weight.flips, weight.share);
        }
    }
    tally.retain(|_, (flips, _)| *flips > 0);
    tally
}

#[test]
fn all_members_of_a_class_have_the_same_effect() {
    if !possible() {
        return;
    }
    let mut engine = engine();
    let types = FlipType::PAPER;
    let (totals, by_class) = engine.exhaust(0, types, BitPolicy::Full, true);
    let (whole, by_flip) = engine.exhaust(0, types, BitPolicy::Full, false);
    println!("{} flips, {} classes", whole.classes, totals.classes);
    assert_eq!(by_flip.len() as u64, whole.classes);
    assert!(totals.classes * 2 < whole.classes, "classes save most of the work");
    let (by_class, by_flip) = (tally(&totals, &by_class), tally(&whole, &by_flip));
    let flips = |tally: &Tally| tally.iter().map(|(key, (flips, _))| (key.clone(), *flips)).collect::<BTreeMap<_, _>>();
    assert_eq!(flips(&by_class), flips(&by_flip));
}

#[test]
fn exactly_the_flips_that_can_be_drawn_are_enumerated() {
    if !possible() {
        return;
    }
    let masked = is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vl");
    if !masked {
        skipped("an empty mask: this processor has no AVX-512");
    }
    let path = compiled("repeats", if masked { &["-DMASKED"] } else { &[] });
    let mut program = program(&[&path.to_string_lossy()], None);
    program.sites.symbols = ["moves", "backwards", "masked"].map(String::from).to_vec();
    program.sites.reply = Some(0);
    let mut engine = Engine::start();
    let profile = engine.begin(&program).unwrap();
    let (totals, all) = engine.exhaust(0, FlipType::PAPER, BitPolicy::Low32, false);
    for kind in &totals.kinds {
        let (_, eligible) = profile.eligible.iter().find(|(of, _)| *of == kind.kind).unwrap();
        assert!((kind.share - *eligible as f64).abs() < 1e-6, "{kind:?} of {eligible} eligible instructions");
    }
    let place = |one: &Injected| {
        one.injection.as_ref().map(|i| (i.kind, i.position, i.iteration, i.operand, i.bit)).expect("it is a flip")
    };
    let every: HashSet<_> = all.iter().map(place).collect();
    let mut drawing = draw(FlipType::PAPER, 400);
    (drawing.bits, drawing.controls) = (BitPolicy::Low32, 0);
    let (drawn, _) = engine.inject(&drawing, Method::Fork, &[], &[]);
    let drawn: HashSet<_> = drawn.iter().map(place).collect();
    assert_eq!(drawn.difference(&every).collect::<Vec<_>>(), Vec::<&_>::new());
    assert!(drawn.iter().any(|(kind, _, iteration, ..)| *kind == FlipType::Waddr && *iteration > 0));
    let empty = all.iter().filter(|one| one.effect.hit.contains("the mask is empty")).count();
    assert_eq!(empty > 0, masked, "{empty} without anything to flip");
}

#[test]
fn a_type_with_random_values_is_refused() {
    if !possible() {
        return;
    }
    let refusal = engine().refused(&Request::Exhaust {
        reply: 0,
        types: vec![FlipType::Cf, FlipType::Asc],
        bits: BitPolicy::Full,
        classes: true,
        skip: Vec::new(),
        only: Vec::new(),
    });
    assert!(refusal.contains("ASC cannot be tried exhaustively") && refusal.contains("--types"), "{refusal}");
}

#[test]
fn a_draw_agrees_with_the_exhaustive_result() {
    if !possible() {
        return;
    }
    const DRAWN: u32 = 300;
    let mut engine = engine();
    let (totals, all) = engine.exhaust(0, FlipType::PAPER, BitPolicy::Full, true);
    let exact = tally(&totals, &all);
    let (drawn, _) = engine.inject(&draw(FlipType::PAPER, DRAWN), Method::Fork, &[], &[]);
    for kind in FlipType::PAPER {
        let eligible: f64 = exact.iter().filter(|((k, _), _)| k == kind).map(|(_, (_, share))| share).sum();
        let unchanged = exact.get(&(*kind, "exit golden".to_owned())).map_or(0.0, |(_, share)| *share) / eligible;
        let sampled = drawn
            .iter()
            .filter(|one| one.injection.as_ref().is_some_and(|injection| injection.kind == *kind))
            .filter(|one| effect_of(one) == "exit golden")
            .count();
        // five standard deviations: once in two million campaigns by chance, and the seed is fixed
        let n = f64::from(DRAWN);
        let margin = 5.0 * (unchanged * (1.0 - unchanged) / n).sqrt() + 0.5 / n;
        let sampled = sampled as f64 / n;
        println!("{kind}: {unchanged:.3} of all are without effect, {sampled:.3} of {DRAWN} drawn");
        assert!((sampled - unchanged).abs() <= margin, "{kind}: {sampled} drawn, {unchanged} of all");
    }
}
