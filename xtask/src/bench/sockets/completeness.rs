//! Short connections: the share that a tracer captures, and the share with an exact owner, relative to the load
//! generator's count, and how many it does not see end. Each load runs alone, and beside busy loops for eBPF.

use super::load::{serve, storm};
use super::tracer::{Mode, OUTPUT, Tracer};
use super::{Size, arena};
use crate::busy_loops::BusyLoops;
use serde_json::{Map, Value, json};
use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

pub struct ShortLoad {
    pub name: &'static str,
    connections: usize,
    seconds: f64,
    processes: usize,
}

pub const LOADS: [ShortLoad; 2] = [
    ShortLoad { name: "20000 in 10 s", connections: 20_000, seconds: 10.0, processes: 4 },
    ShortLoad { name: "60000 as fast as they go", connections: 60_000, seconds: 0.0, processes: 3 },
];

const MODES: [Mode; 5] = [Mode::Ebpf, Mode::Polling, Mode::Tuples, Mode::Ss, Mode::NewFilter];

/// More than the two processors of a small machine.
const BUSY_LOOPS: usize = 3;

/// Names of the figures: each load alone and beside busy loops.
pub fn figure_names() -> impl Iterator<Item = String> {
    [false, true].into_iter().flat_map(|busy| LOADS.iter().map(move |load| load.figure_name(busy)))
}

impl ShortLoad {
    fn figure_name(&self, busy: bool) -> String {
        let beside = if busy { " beside busy loops" } else { "" };
        format!("{}{beside}", self.name)
    }
}

pub fn measure(size: &Size) -> Result<Value, String> {
    let mut figures = Map::new();
    for (load, busy) in LOADS.iter().flat_map(|load| [(load, false), (load, true)]) {
        let name = load.figure_name(busy);
        let mut modes = Map::new();
        // the goals are about eBPF; the other modes are its comparison without other load
        for mode in MODES.into_iter().filter(|mode| !busy || *mode == Mode::Ebpf) {
            let _busy_loops = if busy { Some(BusyLoops::start(BUSY_LOOPS)?) } else { None };
            let mut worst: Option<Counted> = None;
            for _ in 0..size.of(1, 2) {
                let counted = run(load, mode, size)?;
                let rank = |counted: &Counted| (100.0 - counted.captured(), counted.unclosed);
                if worst.as_ref().is_none_or(|worst| rank(&counted) > rank(worst)) {
                    worst = Some(counted);
                }
            }
            let Some(counted) = worst else { continue };
            println!(
                " {:<44} {:<10} captured {:>7.3} %   exact owner {:>7.3} %   unclosed {}   {:.0} connections/s",
                name,
                mode.name(),
                counted.captured(),
                counted.exact_owner(),
                counted.unclosed,
                counted.made / counted.seconds
            );
            modes.insert(mode.name().to_owned(), json!({
                "made": counted.made, "active": counted.active, "passive": counted.passive, "captured_percent": counted.captured(),
                "exact_owner_percent": counted.exact_owner(), "unclosed": counted.unclosed, "seconds": counted.seconds, "losses": counted.losses,
            }));
        }
        figures.insert(name, Value::Object(modes));
    }
    Ok(Value::Object(figures))
}

/// Ends of connections reported by a tracer, and the number of connections made.
#[derive(Default)]
struct Counted {
    made: f64,
    seconds: f64,
    active: f64,
    passive: f64,
    /// Ends with an exact owner.
    exact: f64,
    /// Ends that were opened and, according to the tracer, did not end. The tools for comparison do not count ends.
    unclosed: f64,
    losses: Value,
}

impl Counted {
    /// The worse of the two ends. Counts above the real number are errors of the same size.
    fn captured(&self) -> f64 {
        let share = |ends: f64| 100.0 - 100.0 * (ends - self.made).abs() / self.made;
        share(self.active).min(share(self.passive))
    }

    fn exact_owner(&self) -> f64 {
        100.0 * self.exact / (2.0 * self.made)
    }
}

fn run(load: &ShortLoad, mode: Mode, size: &Size) -> Result<Counted, String> {
    let (server, port) = serve("storm")?;
    let tracer = Tracer::start_with_output(mode)?;
    let share = size.of(10, 1);
    let reports = storm(port, load.processes, load.connections / share, load.seconds / share as f64)?;
    let sum = |key: &str| reports.iter().filter_map(|report| report[key].as_f64()).sum::<f64>();
    let slowest = reports.iter().filter_map(|report| report["seconds"].as_f64()).fold(0.0, f64::max);
    // the server has closed all connections when it ends
    server.finish()?;
    // NFLOG delivers its last records after a second, and ss runs once more
    std::thread::sleep(Duration::from_millis(1_200));
    let directory = tracer.stop()?;
    let text = std::fs::read_to_string(directory.join(OUTPUT)).map_err(|e| format!("{}: {e}", directory.display()))?;
    let mut counted = match mode {
        Mode::Ss => by_ss(&text, port),
        Mode::NewFilter => by_packet_filter(&text, port),
        _ => by_agent(&text, port)?,
    };
    (counted.made, counted.seconds) = (sum("answered"), slowest);
    if sum("failed") > 0.0 {
        return Err(format!("{} connections failed: {}", sum("failed"), Path::new(&directory).display()));
    }
    Ok(counted)
}

fn by_agent(text: &str, port: u16) -> Result<Counted, String> {
    let netns = arena::netns()?;
    let mut counted = Counted::default();
    // per side: an end that is counted twice must not hide one that is missing
    let mut unclosed_ends = [0.0_f64; 2];
    let mut losses = [0; 4];
    for line in text.lines() {
        let window: Value = serde_json::from_str(line).map_err(|e| format!("a window: {e}"))?;
        for (sum, key) in losses.iter_mut().zip(["table_full", "recursion", "windows", "closed_unseen"]) {
            *sum += window["losses"][key].as_u64().unwrap_or(0);
        }
        for flow in window["flows"].as_array().into_iter().flatten() {
            if flow["netns"] != netns || flow["link"]["passive"]["port"] != port || flow["link"]["protocol"] != "tcp" {
                continue;
            }
            let opened = flow["counts"]["opened"].as_f64().unwrap_or(0.0);
            *(if flow["side"] == "active" { &mut counted.active } else { &mut counted.passive }) += opened;
            let ended = ["closed", "failed"].map(|key| flow["counts"][key].as_f64().unwrap_or(0.0));
            let unclosed = opened - ended.iter().sum::<f64>();
            *(if flow["side"] == "active" { &mut unclosed_ends[0] } else { &mut unclosed_ends[1] }) += unclosed;
            if flow["attribution"] == "exact" {
                counted.exact += opened;
            }
        }
    }
    counted.unclosed = unclosed_ends.iter().map(|ends| ends.abs()).sum();
    counted.losses =
        json!({"table_full": losses[0], "recursion": losses[1], "windows": losses[2], "closed_unseen": losses[3]});
    Ok(counted)
}

/// Distinct ends listed by ss at least once.
fn by_ss(text: &str, port: u16) -> Counted {
    let port = format!(":{port}");
    let (mut active, mut passive, mut owned) = (HashSet::new(), HashSet::new(), HashSet::new());
    for line in text.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [state, _, _, local, remote, owner @ ..] = fields.as_slice() else { continue };
        if *state == "LISTEN" {
            continue;
        }
        let side = if remote.ends_with(&port) {
            &mut active
        } else if local.ends_with(&port) {
            &mut passive
        } else {
            continue;
        };
        side.insert((*local, *remote));
        if !owner.is_empty() {
            owned.insert((*local, *remote));
        }
    }
    Counted {
        active: active.len() as f64,
        passive: passive.len() as f64,
        exact: owned.len() as f64,
        ..Counted::default()
    }
}

/// One log line per connection represents both ends, because both are on this host. It contains no process.
fn by_packet_filter(text: &str, port: u16) -> Counted {
    let port = format!("DPT={port} ");
    let mut connections = HashSet::new();
    for line in text.lines().filter(|line| line.contains(&port)) {
        let field = |name: &str| line.split(' ').find_map(|word| word.strip_prefix(name));
        connections.insert((field("DST="), field("SPT="), field("SEQ=")));
    }
    Counted { active: connections.len() as f64, passive: connections.len() as f64, ..Counted::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_listed_twice_by_ss_count_once() {
        let text = "LISTEN 0 128 0.0.0.0:80 0.0.0.0:* users:((\"a\",pid=1,fd=3))\n\
            ESTAB 0 0 127.0.0.1:4000 127.0.10.1:80 users:((\"b\",pid=2,fd=3))\n\
            TIME-WAIT 0 0 127.0.0.1:4000 127.0.10.1:80\nTIME-WAIT 0 0 127.0.0.1:4001 127.0.10.1:80\n\
            ESTAB 0 0 127.0.10.1:80 127.0.0.1:4000\nESTAB 0 0 127.0.10.1:8080 127.0.0.1:4000\n";
        let counted = by_ss(text, 80);
        assert_eq!((counted.active, counted.passive, counted.exact), (2.0, 1.0, 1.0));
    }

    #[test]
    fn a_connection_counted_twice_is_as_wrong_as_one_missed() {
        let counted = Counted { made: 100.0, active: 101.0, passive: 100.0, exact: 150.0, ..Counted::default() };
        assert_eq!((counted.captured(), counted.exact_owner()), (99.0, 75.0));
    }
}
