//! Generates an input trace for memcached, for tests and `lab/papers/sei`: several connections set, get, delete and
//! count, with more data than its memory holds.
//!
//! The commands of SEI §7's campaigns are not published. These exercise memcached's main functions, eviction included.

use model::random::Random;
use model::replay::{InputTrace, Listener};

/// Parameters of the trace. The same values give the same trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    pub seed: u64,
    pub commands: u32,
    /// At least 1.
    pub connections: u32,
    /// Distinct small keys, at least 1. There are half as many counters and twice as many large values.
    pub keys: u32,
    /// Every n-th set stores 23,000 to 26,000 bytes: with `-m 2`, memcached has room for 38. 0: none does.
    pub large_every: u32,
    /// 0: the first port with a listener.
    pub port: u16,
}

impl Default for Load {
    fn default() -> Load {
        Load { seed: 1, commands: 1200, connections: 4, keys: 64, large_every: 3, port: 0 }
    }
}

/// Opens all connections, sends one command at a time on a random one of them, and closes them.
pub fn trace(load: &Load) -> InputTrace {
    let mut trace = InputTrace::default();
    let mut random = Random(load.seed);
    let to = if load.port == 0 { Listener::Any } else { Listener::Tcp(load.port) };
    (0..load.connections).for_each(|connection| trace.connect(connection, to));
    let mut sets = 0;
    for _ in 0..load.commands {
        let connection = random.below(u64::from(load.connections)) as u32;
        trace.send(connection, command(load, &mut random, &mut sets));
    }
    (0..load.connections).for_each(|connection| trace.close(connection));
    trace
}

fn command(load: &Load, random: &mut Random, sets: &mut u32) -> Vec<u8> {
    let mut key = |name: &str, count: u32| format!("{name}:{}", random.below(u64::from(count.max(1))));
    let (small, large, counter) = (key("key", load.keys), key("large", 2 * load.keys), key("counter", load.keys / 2));
    match random.below(100) {
        0..40 => {
            *sets += 1;
            if sets.is_multiple_of(load.large_every) {
                let bytes = 23_000 + random.below(3_001);
                set(&large, &value(random, bytes))
            } else if random.below(5) == 0 {
                set(&counter, random.below(1_000_000).to_string().as_bytes())
            } else {
                let bytes = 1 + random.below(100);
                set(&small, &value(random, bytes))
            }
        }
        40..65 => format!("get {small}\r\n").into_bytes(),
        65..75 => format!("get {large}\r\n").into_bytes(),
        75..80 => format!("get {small} {counter} {large}\r\n").into_bytes(),
        80..90 => format!("incr {counter} {}\r\n", 1 + random.below(100)).into_bytes(),
        90..97 => format!("delete {small}\r\n").into_bytes(),
        _ => format!("delete {large}\r\n").into_bytes(),
    }
}

fn set(key: &str, value: &[u8]) -> Vec<u8> {
    let mut command = format!("set {key} 0 0 {}\r\n", value.len()).into_bytes();
    command.extend(value);
    command.extend(b"\r\n");
    command
}

/// Letters, so that replies are readable.
fn value(random: &mut Random, bytes: u64) -> Vec<u8> {
    (0..bytes).map(|_| b'a' + random.below(26) as u8).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::replay::Step;

    #[test]
    fn a_load_is_a_valid_trace_with_every_kind_of_command() {
        let load = Load::default();
        let trace = trace(&load);
        assert_eq!(InputTrace::parse(&trace.to_bytes()).map_err(|e| e.what), Ok(trace.clone()));
        let sent: Vec<&[u8]> = trace
            .steps
            .iter()
            .filter_map(|step| if let Step::Send { bytes, .. } = step { Some(&bytes[..]) } else { None })
            .collect();
        assert_eq!(sent.len(), load.commands as usize);
        for verb in ["set key", "set large", "set counter", "get ", "incr ", "delete "] {
            assert!(sent.iter().filter(|bytes| bytes.starts_with(verb.as_bytes())).count() > 20, "{verb}");
        }
    }

    #[test]
    fn the_seed_determines_the_trace() {
        let with = |seed| trace(&Load { seed, ..Load::default() });
        assert_eq!(with(7), with(7));
        assert_ne!(with(7), with(8));
    }
}
