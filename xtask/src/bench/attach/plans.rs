//! Seeded random programs: what each request does, call by call, for the programs in `bench/contexts`.

use model::random::Random;
use serde_json::{Value, json};

pub const LANGUAGES: [&str; 4] = ["go", "java", "node", "python"];

const CONTEXT: &str = "context";
/// How a program may make a call. `context` keeps the context of the request; the others may lose it.
const MODES: [&[&str]; 4] = [
    &[CONTEXT, "todo", "thread", "pool", "cached", "queue", "timer", "after"],
    &[CONTEXT, "thread", "executor", "pool", "cached", "queue", "timer", "after"],
    &[CONTEXT, "todo", "pool", "cached", "queue", "timer", "after"],
    &[CONTEXT, "todo", "thread", "executor", "pool", "cached", "queue", "timer", "after"],
];
const CALLS_MAX: u64 = 12;
const DEPTH_MAX: usize = 3;
const PAUSE_MS_MAX: u64 = 6;

/// One request, from its entry to its last call.
pub struct Request {
    pub id: String,
    /// The language of the service that gets it.
    pub entry: usize,
    /// Whether it is sent with an envelope.
    pub is_traced: bool,
    pub calls: Vec<Call>,
}

pub struct Call {
    pub id: String,
    pub caller: usize,
    pub callee: usize,
    pub mode: &'static str,
    /// Index of the call in whose handler it is made. None: in that of the entry.
    pub parent: Option<usize>,
    pause_ms: u64,
    wait: bool,
}

/// Names without digits, which SDKs do not replace by `{id}`.
fn name(random: &mut Random) -> String {
    const LETTERS: &[u8] = b"ghijklmnopqrstuvwxyz";
    (0..12).map(|_| char::from(LETTERS[random.below(LETTERS.len() as u64) as usize])).collect()
}

/// Requests that are sent at once.
pub fn requests(random: &mut Random) -> Vec<Request> {
    let traced = 3 + random.below(6);
    let untraced = random.below(3);
    (0..traced + untraced).map(|i| request(random, i < traced)).collect()
}

fn request(random: &mut Random, is_traced: bool) -> Request {
    let entry = random.below(LANGUAGES.len() as u64) as usize;
    let mut made = Request { id: name(random), entry, is_traced, calls: Vec::new() };
    for _ in 0..1 + random.below(CALLS_MAX) {
        let deeper: Vec<usize> = (0..made.calls.len()).filter(|call| made.path(*call).len() <= DEPTH_MAX).collect();
        let parent = match random.below(2 * deeper.len() as u64 + 1) as usize {
            n if n < deeper.len() => Some(deeper[n]),
            _ => None,
        };
        let path = parent.map_or(vec![made.entry], |parent| made.path(parent));
        let caller = path[path.len() - 1];
        // a service never waits for itself
        let callees: Vec<usize> = (0..LANGUAGES.len()).filter(|callee| !path.contains(callee)).collect();
        let callee = callees[random.below(callees.len() as u64) as usize];
        let modes = MODES[caller];
        let mode_count = modes.len() as u64;
        made.calls.push(Call {
            id: name(random),
            caller,
            callee,
            // below a call that lost its context little is left to attribute
            mode: if random.below(3) == 0 { CONTEXT } else { modes[random.below(mode_count) as usize] },
            parent,
            pause_ms: random.below(PAUSE_MS_MAX),
            wait: random.below(2) == 0,
        });
    }
    made
}

impl Request {
    /// The services from the entry to the callee of a call.
    fn path(&self, call: usize) -> Vec<usize> {
        let mut path = self.calls[call].parent.map_or(vec![self.entry], |parent| self.path(parent));
        path.push(self.calls[call].callee);
        path
    }

    /// The body that the entry gets. `peers`: the address of each service.
    pub fn body(&self, peers: &[String]) -> Value {
        json!({ "request": self.id, "steps": self.steps(None, peers) })
    }

    fn steps(&self, parent: Option<usize>, peers: &[String]) -> Vec<Value> {
        let of_parent = self.calls.iter().enumerate().filter(|(_, call)| call.parent == parent);
        let step = |(i, call): (usize, &Call)| {
            json!({
                "call": call.id, "mode": call.mode, "peer": peers[call.callee], "pause_ms": call.pause_ms,
                "wait": call.wait, "steps": self.steps(Some(i), peers),
            })
        };
        of_parent.map(step).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_programs_and_no_service_calls_one_that_waits_for_it() {
        let (a, b) = (requests(&mut Random(7)), requests(&mut Random(7)));
        let peers = LANGUAGES.map(str::to_owned);
        let bodies = |requests: &[Request]| requests.iter().map(|r| r.body(&peers)).collect::<Vec<_>>();
        assert_eq!(bodies(&a), bodies(&b));
        for request in (0..200).flat_map(|seed| requests(&mut Random(seed))) {
            for call in 0..request.calls.len() {
                let mut path = request.path(call);
                path.sort_unstable();
                assert!(path.windows(2).all(|two| two[0] != two[1]), "{path:?}");
            }
        }
    }
}
