//! The site filter: flips hit only the selected functions, libraries and handlers.

use crate::support::{Engine, compiled, draw, possible, program, written};
use bit_flips::engine_messages::{Injected, Method, Sites};
use model::flip::{FlipType, Injection};
use std::collections::BTreeSet;

fn injections(sites: Sites) -> Vec<Injection> {
    let lines: String = (0..10).map(|n| format!("line {n}\n")).collect();
    let mut program = program(&[&compiled("sums", &[]).to_string_lossy()], Some(written("lines", lines.as_bytes())));
    program.sites = sites;
    let mut engine = Engine::start();
    engine.begin(&program).unwrap();
    let (all, _) = engine.inject(&draw(&[FlipType::Cf, FlipType::Rreg], 60), Method::Fork, &[], &[]);
    all.into_iter().filter_map(|Injected { injection, .. }| injection).collect()
}

fn names(one: &str) -> Vec<String> {
    vec![one.to_owned()]
}

#[test]
fn flips_hit_only_selected_sites() {
    if !possible() {
        return;
    }
    let modules = |all: &[Injection]| all.iter().map(|i| i.module.clone()).collect::<BTreeSet<_>>();
    let symbols = |all: &[Injection]| all.iter().filter_map(|i| i.symbol.clone()).collect::<BTreeSet<_>>();

    let everywhere = injections(Sites::default());
    assert!(modules(&everywhere).len() >= 2, "the program and its library");

    let library = injections(Sites { libraries: names("libc"), ..Sites::default() });
    assert_eq!(modules(&library), BTreeSet::from(["libc.so.6".to_owned()]));

    let except = injections(Sites { except: names("libc"), ..Sites::default() });
    assert!(!except.is_empty() && !modules(&except).contains("libc.so.6"));

    let function = injections(Sites { symbols: names("mix"), ..Sites::default() });
    assert_eq!(symbols(&function), BTreeSet::from(["mix".to_owned()]));
    assert!(function.iter().all(|i| i.source.as_deref().is_some_and(|source| source.starts_with("sums.c:"))));
}

#[test]
fn a_handler_is_hit_with_all_its_callees() {
    if !possible() {
        return;
    }
    let within: BTreeSet<_> = injections(Sites { handlers: names("puts"), ..Sites::default() })
        .into_iter()
        .filter_map(|injection| injection.symbol)
        .collect();
    assert!(within.contains("puts") && within.len() > 2, "{within:?}");
    assert!(!within.contains("mix") && !within.contains("main"), "{within:?}");
}

#[test]
fn a_missing_handler_is_refused() {
    if !possible() {
        return;
    }
    let mut program = program(&[&compiled("sums", &[]).to_string_lossy()], None);
    program.sites = Sites { handlers: names("no_such_function"), ..Sites::default() };
    let refusal = Engine::start().begin(&program).unwrap_err();
    assert!(refusal.contains("no function is called no_such_function") && refusal.contains("nm"), "{refusal}");
}
