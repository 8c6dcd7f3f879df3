//! Hostile envelopes, sent to the relays of all languages over HTTP and gRPC: how many are obeyed, and how many
//! requests do not get the reply of a request without an envelope. What verifying one costs in Go.

use super::{Goal, Size};
use crate::setup;
use crate::shell::{built, command, quiet, root};
use serde_json::{Map, Value, json};

const TARGET: &str = "lab/relay/target.yaml";
const HOME: &str = "out/bench/robust-home";
/// Of all languages and protocols together.
const HOSTILE_MIN: f64 = 1e6;

/// A relay under attack, by its ports in the target file.
struct Peer {
    language: &'static str,
    http: u16,
    grpc: u16,
    /// How many envelopes each of its two servers gets. Flask's own server is the slowest.
    full: [u64; 2],
}

const PEERS: [Peer; 4] = [
    Peer { language: "go", http: 7401, grpc: 7411, full: [175_000, 175_000] },
    Peer { language: "java", http: 7402, grpc: 7412, full: [150_000, 150_000] },
    Peer { language: "python", http: 7403, grpc: 7413, full: [50_000, 75_000] },
    Peer { language: "node", http: 7404, grpc: 7414, full: [125_000, 125_000] },
];
const QUICK: u64 = 400;

pub fn measure(size: &Size) -> Result<Value, String> {
    setup::build_tool()?;
    setup::build_agent()?;
    setup::build_node_sdk()?;
    setup::build_relay()?;
    crate::cargo::build(&["--package", "requests", "--examples"])?;
    let up = setup::Up::start(TARGET, Some(HOME))?;
    let before = processes(&up.state);
    let sent = attack(size);
    let after = running();
    let stopped = up.stop();
    let peers = sent?;
    stopped?;
    let restarted: Vec<&String> = before.iter().filter(|process| !after.contains(process)).collect();
    table(&peers);
    let verify_us = verify_us(size)?;
    println!("  Go verifies an envelope in {verify_us:.3} µs");
    let sum = |key: &str| peers.values().filter_map(|peer| peer[key].as_u64()).sum::<u64>();
    let (hostile, obeyed, crashed) = (sum("hostile"), sum("obeyed"), sum("crashed") + restarted.len() as u64);
    Ok(json!({"hostile": hostile, "obeyed": obeyed, "crashed": crashed, "restarted": restarted, "verify_us": verify_us,
        "peers": peers}))
}

pub fn goals(figures: &Value, size: &Size) -> Vec<Goal> {
    let figure = |key: &str| figures[key].as_f64().unwrap_or(f64::NAN);
    vec![
        Goal::at_least("envelopes", figure("hostile"), size.of((8 * QUICK) as f64, HOSTILE_MIN)),
        Goal::equals("obeyed", figure("obeyed"), 0.0),
        Goal::equals("crashed", figure("crashed"), 0.0),
        Goal::at_most("verify_us", figure("verify_us"), 1.0),
    ]
}

/// Sends the envelopes. Returns the counts by language and protocol.
fn attack(size: &Size) -> Result<Map<String, Value>, String> {
    let mut call = command(&built("examples/hostile"), &[&format!("{HOME}/up/trust"), &size.seed.to_string()]);
    for peer in &PEERS {
        for (protocol, port, full) in [("http", peer.http, peer.full[0]), ("grpc", peer.grpc, peer.full[1])] {
            call.arg(format!("{}:{protocol}:127.0.0.1:{port}:{}", peer.language, size.of(QUICK, full)));
        }
    }
    let output = quiet(call.current_dir(root()))?;
    serde_json::from_slice(&output.stdout).map_err(|e| format!("hostile: {e}"))
}

/// Name and process id of each service.
fn processes(state: &Value) -> Vec<String> {
    let services = state["services"].as_array().into_iter().flatten();
    services.map(|service| format!("{} {}", service["name"], service["process"]["pid"])).collect()
}

/// [`processes`] of the target that is up.
fn running() -> Vec<String> {
    let output = quiet(&mut command(&built("faultloom"), &["--home", HOME, "--json", "ps"]));
    let state = output.ok().and_then(|output| serde_json::from_slice::<Value>(&output.stdout).ok());
    state.map_or_else(Vec::new, |ps| processes(&ps["state"]))
}

/// Time to accept a valid envelope or to refuse a forged one, whichever is longer.
fn verify_us(size: &Size) -> Result<f64, String> {
    let times = size.of("20000x", "1000000x");
    let arguments = ["test", "-run", "^$", "-bench", "^BenchmarkAccept", "-benchtime", times, "./message/trust"];
    let output = quiet(command("go", &arguments).current_dir(root().join("sdk/go")))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let ns = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let unit = words.iter().position(|word| *word == "ns/op")?;
        words.get(unit - 1)?.parse::<f64>().ok()
    };
    let slowest = text.lines().filter(|line| line.starts_with("BenchmarkAccept")).filter_map(ns).reduce(f64::max);
    slowest.map(|ns| ns / 1000.0).ok_or_else(|| format!("go test printed no time:\n{text}"))
}

fn table(peers: &Map<String, Value>) {
    println!("\n  {:<14} {:>9} {:>7} {:>8}", "peer", "hostile", "obeyed", "crashed");
    for (name, counts) in peers {
        let count = |key: &str| counts[key].as_u64().unwrap_or(0);
        println!("  {name:<14} {:>9} {:>7} {:>8}", count("hostile"), count("obeyed"), count("crashed"));
        for example in counts["examples"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            println!("    {}", example.chars().take(600).collect::<String>());
        }
    }
}
