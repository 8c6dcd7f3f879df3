//! CPU cost of tracing many open and busy connections once per second.

use super::load::{Load, hold, serve};
use super::tracer::{Mode, Tracer};
use super::{Size, interval};
use crate::bench::statistics::Shuffle;
use serde_json::{Map, Value, json};
use std::time::{Duration, Instant};

const MODES: [Mode; 5] = [Mode::Ebpf, Mode::Polling, Mode::Tuples, Mode::Ss, Mode::NewFilter];
/// Two processes of each kind, because descriptors per process are limited.
const PROCESSES: usize = 2;

pub fn measure(size: &Size) -> Result<Value, String> {
    let mut figures = Map::new();
    let mut order = Shuffle(size.seed);
    println!(" {:>8} {:<10} {:>22} {:>14}", "", "", "% of a core", "ms per poll");
    for connections in size.of(vec![2_000], vec![5_000, 10_000, 20_000]) {
        let (servers, ports) = servers()?;
        let held = hold(&ports, PROCESSES, connections)?;
        let mut cpu = MODES.map(|_| Vec::new());
        let mut collections = MODES.map(|_| Vec::new());
        for _ in 0..size.of(1, 2) {
            for i in order.permutation(MODES.len()) {
                let (percent, collection_ms) = window(MODES[i], size)?;
                cpu[i].push(percent);
                collections[i].push(collection_ms);
            }
        }
        let mut modes = Map::new();
        for (i, mode) in MODES.iter().enumerate() {
            let mut result = interval(&cpu[i]);
            let collection = interval(&collections[i]);
            println!(
                " {connections:>8} {:<10} {:>8.2} ({:.2} to {:.2}) {:>14.2}",
                mode.name(),
                number(&result["median"]),
                number(&result["low"]),
                number(&result["high"]),
                number(&collection["median"])
            );
            result["ms_per_look"] = collection["median"].clone();
            modes.insert(mode.name().to_owned(), result);
        }
        let mut answered = 0.0;
        for load in held {
            answered += load.finish()?["answered"].as_f64().unwrap_or(0.0);
        }
        modes.insert("exchanges".to_owned(), json!(answered));
        drop(servers);
        figures.insert(connections.to_string(), Value::Object(modes));
    }
    Ok(Value::Object(figures))
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

fn servers() -> Result<(Vec<Load>, Vec<u16>), String> {
    let started: Vec<_> = (0..PROCESSES).map(|_| serve("busy")).collect::<Result<_, _>>()?;
    Ok(started.into_iter().unzip())
}

/// CPU of one tracer in percent of a core, and the duration of a collection in ms (only for the agent).
fn window(mode: Mode, size: &Size) -> Result<(f64, f64), String> {
    let tracer = Tracer::start(mode)?;
    // skip the first collections, which process all existing connections
    std::thread::sleep(Duration::from_millis(size.of(500, 2_200)));
    let state =
        |tracer: &Tracer| (tracer.cpu_s(), tracer.counter("look_seconds_total"), tracer.counter("windows_total"));
    let (begin, before) = (Instant::now(), state(&tracer));
    std::thread::sleep(Duration::from_millis(size.of(2_000, 4_000)));
    let (after, length) = (state(&tracer), begin.elapsed().as_secs_f64());
    tracer.stop()?;
    Ok((100.0 * (after.0 - before.0) / length, 1e3 * (after.1 - before.1) / (after.2 - before.2)))
}
