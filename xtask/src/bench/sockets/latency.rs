//! Latency that a tracer adds to a connection: both ends on this host, one connection after the other.

use super::load::{serve, storm};
use super::tracer::{Mode, Tracer};
use super::{Size, interval};
use crate::bench::statistics::Shuffle;
use serde_json::{Map, Value, json};

const MODES: [Mode; 6] = [Mode::UntracedA, Mode::UntracedB, Mode::Ebpf, Mode::Polling, Mode::Ss, Mode::NewFilter];

pub fn measure(size: &Size) -> Result<Value, String> {
    let mut order = Shuffle(size.seed);
    let (_server, port) = serve("latency")?;
    let mut rounds: Vec<[f64; MODES.len()]> = Vec::new();
    for _ in 0..size.of(1, 15) {
        let mut round = [0.0; MODES.len()];
        for i in order.permutation(MODES.len()) {
            let tracer = Tracer::start(MODES[i])?;
            let reports = storm(port, 1, size.of(1_000, 12_000), 0.0)?;
            tracer.stop()?;
            round[i] = reports[0]["total_us_p50"].as_f64().unwrap_or(f64::NAN);
        }
        rounds.push(round);
    }
    println!(" {:<12} {:>10} {:>10}   95 % interval", "", "p50, us", "added, us");
    let (mut totals, mut added) = (Map::new(), Map::new());
    for (i, mode) in MODES.iter().enumerate() {
        let total = interval(&rounds.iter().map(|r| r[i]).collect::<Vec<f64>>());
        // the control is the difference of the untraced pair; the others are compared with the mean of the pair
        let base = |r: &[f64; MODES.len()]| if i < 2 { r[0] } else { (r[0] + r[1]) / 2.0 };
        let more = interval(&rounds.iter().map(|r| r[i] - base(r)).collect::<Vec<f64>>());
        let n = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
        println!(
            " {:<12} {:>10.1} {:>10.2}   {:.2} to {:.2}",
            mode.name(),
            n(&total["median"]),
            n(&more["median"]),
            n(&more["low"]),
            n(&more["high"])
        );
        totals.insert(mode.name().to_owned(), total);
        if i > 0 {
            let name = if *mode == Mode::UntracedB { "control" } else { mode.name() };
            added.insert(name.to_owned(), more);
        }
    }
    Ok(json!({"total_us": totals, "added_us": added, "rounds": rounds.len()}))
}
