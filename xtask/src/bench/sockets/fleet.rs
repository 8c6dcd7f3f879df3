//! Database cost of a fleet: recording the windows of many agents in one PostgreSQL, and the duration of queries.

use super::{Size, interval};
use crate::shell::{built, command, quiet};
use serde_json::Value;

/// Agents, each with 10 services and 50 flows.
const AGENTS: u32 = 1_000;
/// Windows per minute: one per second.
const WINDOWS: u32 = 60;
const MINUTES: u32 = 3;

/// Prints and returns the figures of `base/flowdb/examples/load.rs`.
pub fn measure(size: &Size) -> Result<Value, String> {
    let arguments = [size.of(40, AGENTS), size.of(2, WINDOWS), size.of(1, MINUTES)].map(|n| n.to_string());
    let output = quiet(command(&built("examples/load"), &[]).args(arguments))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().last().unwrap_or_default();
    let mut figures: Value = serde_json::from_str(line).map_err(|_| format!("PostgreSQL is not available: {text}"))?;
    let minutes = figures["minutes"].as_array().cloned().unwrap_or_default();
    for key in ["seconds", "cpu_s_agents", "cpu_s_server"] {
        let of_all: Vec<f64> = minutes.iter().filter_map(|minute| minute[key].as_f64()).collect();
        figures[key] = interval(&of_all);
    }
    let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    println!(
        " a minute of {} agents with {} windows each: {:.1} s to record, {:.1} s of CPU at the agents, {:.1} s at the server",
        figures["agents"],
        figures["windows_per_agent_and_minute"],
        number(&figures["seconds"]["median"]),
        number(&figures["cpu_s_agents"]["median"]),
        number(&figures["cpu_s_server"]["median"]),
    );
    println!(
        " {} services: the paper's query {:.2} s, a slice of a minute {:.2} s",
        figures["services"],
        number(&figures["papers_query_s"]),
        number(&figures["slice_s"])
    );
    Ok(figures)
}
