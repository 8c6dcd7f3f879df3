//! memcached's commands: sets, gets, counts and deletes on several connections, with more data than its memory holds.

use crate::named;
use crate::undisturbed;
use model::replay::{InputTrace, Listener};
use replay::memcached_input::{self, Load};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// The commands of exhaustive campaigns: the second of two sets, and a get of its value. The first set makes memcached
/// allocate its memory.
const PAIR: [&str; 3] = ["set first 0 0 5\r\nhello\r\n", "set second 7 0 12\r\nhello, again\r\n", "get second\r\n"];
/// A connection that no load uses.
const STATS_CONNECTION: u32 = 4095;
const COUNTED: [&str; 7] = ["evictions", "cmd_get", "get_hits", "get_misses", "cmd_set", "incr_hits", "delete_hits"];

pub fn write(commands: u32, output: &Path) -> Result<Value, String> {
    let load = Load { commands, ..Load::default() };
    let bytes = memcached_input::trace(&load).to_bytes();
    named(output, std::fs::write(output, &bytes))?;
    Ok(json!({"commands": load.commands, "connections": load.connections, "bytes": bytes.len(), "seed": load.seed}))
}

/// Short, since each trial runs to the trace's end.
pub fn write_pair(output: &Path) -> Result<Value, String> {
    let mut trace = InputTrace::default();
    trace.connect(0, Listener::Any);
    PAIR.iter().for_each(|command| trace.send(0, *command));
    trace.close(0);
    named(output, std::fs::write(output, trace.to_bytes()))?;
    Ok(json!({"commands": PAIR}))
}

/// Plays the trace followed by `stats`. The campaign's own trace does not include it: differences of statistics would
/// count as errors although they affect no user of the data.
pub fn counts(trace: &Path, server: &[String]) -> Result<Value, String> {
    let bytes = named(trace, std::fs::read(trace))?;
    let mut played = InputTrace::parse(&bytes).map_err(|e| format!("{}: {e}", trace.display()))?;
    played.connect(STATS_CONNECTION, Listener::Any);
    played.send(STATS_CONNECTION, "stats\r\n");
    let records = undisturbed::replay(server, &played)?;
    let reply = records.streams.get(&STATS_CONNECTION).ok_or("memcached did not answer `stats`")?;
    let found = statistics(&String::from_utf8_lossy(reply));
    let counts = COUNTED.map(|name| found.get(name).map(|count| (name, *count)).ok_or(name));
    let counts: BTreeMap<&str, u64> =
        counts.into_iter().collect::<Result<_, _>>().map_err(|name| format!("memcached's `stats` has no {name}"))?;
    Ok(json!(counts))
}

/// The statistics that are integers.
fn statistics(reply: &str) -> BTreeMap<String, u64> {
    let line = |line: &str| {
        let (name, value) = line.strip_prefix("STAT ")?.split_once(' ')?;
        Some((name.to_owned(), value.trim().parse().ok()?))
    };
    reply.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::statistics;

    #[test]
    fn statistics_are_parsed_from_lines() {
        let found = statistics("STAT pid 7\r\nSTAT version 1.6.18\r\nSTAT evictions 42\r\nEND\r\n");
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [("evictions".to_owned(), 42), ("pid".to_owned(), 7)]);
    }
}
