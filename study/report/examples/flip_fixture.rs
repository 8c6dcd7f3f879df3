//! Writes the page of a made-up campaign of bit flips, to look at it.
//!
//! `cargo run -p report --example flip_fixture -- flips.html`

#[path = "fixture/flips.rs"]
mod flips;
#[path = "fixture/shop.rs"]
mod shop;

fn main() -> std::io::Result<()> {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("usage: flip_fixture FLIPS.html");
        std::process::exit(2);
    };
    let run = shop::run(model::KindName::new("flip"), "memcached, memcached-sei", Some(model::Verdict::Fail));
    std::fs::write(path, report::flip_html(&report::FlipReport { run: &run, campaign: &flips::campaign() }))
}
