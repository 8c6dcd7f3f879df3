//! memcached's commands: sets, gets, counts and deletes on several connections, with more data than it has room for.

use crate::named;
use crate::undisturbed;
use bit_flips::memcached_input::{self, Load};
use bit_flips::trace_input::{Listener, Trace};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// What every flip is tried in: the second of two sets, then a get of what it stored. The first makes memcached get its memory.
const PAIR: [&str; 3] = ["set first 0 0 5\r\nhello\r\n", "set second 7 0 12\r\nhello, again\r\n", "get second\r\n"];
/// Beyond the connections of any load.
const ASKING: u32 = 4095;
const COUNTED: [&str; 7] = ["evictions", "cmd_get", "get_hits", "get_misses", "cmd_set", "incr_hits", "delete_hits"];

pub fn write(commands: u32, output: &Path) -> Result<Value, String> {
    let load = Load { commands, ..Load::default() };
    let bytes = memcached_input::trace(&load).to_bytes();
    named(output, std::fs::write(output, &bytes))?;
    Ok(json!({"commands": load.commands, "connections": load.connections, "bytes": bytes.len(), "seed": load.seed}))
}

/// Short, since each trial runs on to the trace's end.
pub fn write_pair(output: &Path) -> Result<Value, String> {
    let mut trace = Trace::default();
    trace.connect(0, Listener::Any);
    PAIR.iter().for_each(|command| trace.send(0, *command));
    trace.close(0);
    named(output, std::fs::write(output, trace.to_bytes()))?;
    Ok(json!({"commands": PAIR}))
}

/// Plays the trace and asks for `stats` behind it. Not part of the campaign's own trace: a client that compares the server's
/// statistics would find errors that no user of its data sees.
pub fn counts(trace: &Path, server: &[String]) -> Result<Value, String> {
    let bytes = named(trace, std::fs::read(trace))?;
    let mut played = Trace::parse(&bytes).map_err(|e| format!("{}: {e}", trace.display()))?;
    played.connect(ASKING, Listener::Any);
    played.send(ASKING, "stats\r\n");
    let records = undisturbed::replay(server, &played)?;
    let said = records.streams.get(&ASKING).ok_or("memcached did not answer `stats`")?;
    let found = statistics(&String::from_utf8_lossy(said));
    let counts = COUNTED.map(|name| found.get(name).map(|count| (name, *count)).ok_or(name));
    let counts: BTreeMap<&str, u64> =
        counts.into_iter().collect::<Result<_, _>>().map_err(|name| format!("memcached's `stats` has no {name}"))?;
    Ok(json!(counts))
}

/// Those that are whole numbers.
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
    fn statistics_are_read_from_their_lines() {
        let found = statistics("STAT pid 7\r\nSTAT version 1.6.18\r\nSTAT evictions 42\r\nEND\r\n");
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [("evictions".to_owned(), 42), ("pid".to_owned(), 7)]);
    }
}
