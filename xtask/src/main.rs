//! The logic behind the Makefile: set-up, demo, tests, benches, conformance.

mod areas;
mod bench;
mod bpf_objects;
mod busy_loops;
mod cargo;
mod check;
mod conform;
mod demo;
mod map_demo;
mod package;
mod papers;
mod replies;
mod setup;
mod shell;
mod steps;
mod support;
mod test;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["demo"] => demo::demo(),
        ["test", areas @ ..] => test::test(areas),
        ["soak"] => test::soak(),
        ["check", areas @ ..] => check::check(areas),
        ["check-words"] => check::words::check().map(|summary| println!("{summary}")),
        ["check-width"] => check::width::check().map(|summary| println!("{summary}")),
        ["conform"] => conform::conform().map(|sums| println!("{sums}")),
        ["conform", "mutants", seed] => seed.parse().map_err(|_| "a seed is a number".to_owned()).and_then(|seed| {
            conform::mutants::compare(seed, conform::mutants::MANY).map(|counts| println!("{counts}"))
        }),
        ["bless"] => conform::bless(),
        ["bench", name] => bench::bench(name),
        ["replies", languages @ ..] => replies::replies(languages).map(|_| ()),
        ["support"] => support::support(),
        ["package"] => package::package(package::Build::Release),
        ["papers", name] => papers::papers(name),
        _ => Err("usage: xtask demo | test [AREA…] | soak | check [AREA…] | check-words | check-width | \
             conform [mutants SEED] | bless | bench NAME | package | papers NAME | support | \
             replies [LANGUAGE…]"
            .to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}
