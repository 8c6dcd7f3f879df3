//! Writes the page of a made-up but realistic sweep, or of a recording, to look at it.
//!
//! `cargo run -p report --example fixture -- sweep.html [recording.html]`

#[path = "fixture/shop.rs"]
mod shop;

fn main() -> std::io::Result<()> {
    let paths: Vec<String> = std::env::args().skip(1).collect();
    let Some(sweep_path) = paths.first() else {
        eprintln!("usage: fixture SWEEP.html [RECORDING.html]");
        std::process::exit(2);
    };
    let (sweep, cases) = shop::sweep();
    let run = shop::run(model::KindName::new("sweep"), "GET http://127.0.0.1:8080/", Some(model::Verdict::Fail));
    std::fs::write(
        sweep_path,
        report::sweep_html(&report::SweepReport { run: &run, sweep: &sweep, cases: &cases, sockets: None }),
    )?;
    if let Some(path) = paths.get(1) {
        let faults = vec![
            "currency/Convert#3 unavailable".parse().expect("a fault"),
            "email unavailable".parse().expect("a fault"),
        ];
        let run = shop::run(model::KindName::new("recording"), "GET http://127.0.0.1:8080/", None);
        let traces = [shop::good(), shop::checkout()];
        std::fs::write(
            path,
            report::recording_html(&report::RecordingReport {
                run: &run,
                traces: &traces,
                left_out: 0,
                faults: &faults,
                sockets: None,
            }),
        )?;
    }
    Ok(())
}
