//! A fake engine in a thread: it simulates a program with ten replies, where `id % 5` determines the effect of flip
//! `id`.

use super::{effect, flip, output};
use crate::EngineClient;
use bit_flips::engine_messages::{Draw, Injected, Profile, Reply, Request, Timings, WriteOrder};
use model::flip::{Ending, FlipType};
use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

const GOLDEN: &[u8] = b"0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n";

/// How the engine misbehaves.
#[derive(Clone, Copy, Default)]
pub struct Quirks {
    /// Ends after this number of injections.
    pub dies_after: Option<u32>,
    pub leaves_out: Option<u32>,
    pub golden: Option<&'static [u8]>,
    pub control_deviates: bool,
}

/// None: a control.
fn kind(id: u32, draw: &Draw) -> Option<FlipType> {
    let mut end = 0;
    let of = draw.types.iter().find(|(_, count)| {
        end += count;
        id < end
    });
    of.map(|(kind, _)| *kind)
}

fn injected(id: u32, draw: &Draw, quirks: Quirks) -> Injected {
    let Some(kind) = kind(id, draw) else {
        let output = quirks.control_deviates.then(|| output(b"x\n"));
        return Injected {
            injection: None,
            id,
            stands_for: Vec::new(),
            effect: effect(Ending::Exit(0)),
            output,
            written: None,
            stderr: Vec::new(),
        };
    };
    let (ending, bytes): (Ending, Option<&[u8]>) = match id % 5 {
        0 => (Ending::Exit(0), None),
        1 => (Ending::Signal(11), None),
        2 => (Ending::Signal(11), Some(b"0\n1\n")),
        3 => (Ending::Hang, Some(b"0\n")),
        _ => (Ending::Exit(0), Some(b"0\n1\n2\n3\n4\n5\n6\n7\n8\n0\n")),
    };
    let injection = Some(flip(id, kind, (id % 64) as u16));
    Injected {
        injection,
        id,
        stands_for: Vec::new(),
        effect: effect(ending),
        output: bytes.map(output),
        // the flip was made after the first reply
        written: bytes.map(|bytes| WriteOrder { connections: false, pieces: vec![(0, bytes.len() as u64)], before: 2 }),
        stderr: Vec::new(),
    }
}

/// Starts an engine, which ends with its client.
pub fn engine(quirks: Quirks) -> EngineClient {
    let (ours, theirs) = UnixStream::pair().unwrap();
    std::thread::spawn(move || serve(theirs, quirks));
    EngineClient::connect(ours.try_clone().unwrap(), ours)
}

/// None: the client has disconnected.
fn serve(stream: UnixStream, quirks: Quirks) -> Option<()> {
    let mut to = stream.try_clone().ok()?;
    let mut send = |reply: &Reply| writeln!(to, "{}", serde_json::to_string(reply).unwrap()).ok();
    for line in BufReader::new(stream).lines() {
        match serde_json::from_str(&line.ok()?).unwrap() {
            Request::Begin(_) => {
                send(&Reply::Progress { position: 50, of: 100 })?;
                send(&Reply::Profile(Box::new(Profile {
                    instructions: 100,
                    sites: 10,
                    eligible: FlipType::PAPER.iter().map(|kind| (*kind, 50)).chain([(FlipType::Asc, 0)]).collect(),
                    golden: output(quirks.golden.unwrap_or(GOLDEN)),
                    ..Profile::default()
                })))?;
            }
            Request::Inject { draw, skip, .. } => {
                let flips: u32 = draw.types.iter().map(|(_, n)| n).sum();
                let skip: HashSet<u32> = skip.into_iter().collect();
                let eligible = |id: u32| kind(id, &draw) != Some(FlipType::Asc);
                let selected = |id: &u32| !skip.contains(id) && quirks.leaves_out != Some(*id) && eligible(*id);
                // in no particular order
                let ids = (0..flips + draw.controls).rev().filter(selected);
                for (done, id) in ids.enumerate() {
                    if quirks.dies_after == Some(done as u32) {
                        return None;
                    }
                    send(&Reply::Injected(Box::new(injected(id, &draw, quirks))))?;
                }
                send(&Reply::Done(Timings::default()))?;
            }
            Request::Exhaust { .. } | Request::Hold { .. } => unreachable!("no campaign requests it"),
        }
    }
    Some(())
}
