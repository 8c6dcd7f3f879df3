//! A campaign's log in its run's folder. Recorded first, counted later: everything shown follows from these files.
//!
//! ```text
//! injections.jsonl    one line per injection and control, in the order in which they ended
//! outputs.jsonl       what undetected ones sent, bounded
//! golden-N.json       the golden run of variant N: hash, sizes, output if it is small
//! campaign.json       tables, once all is there
//! ```

use bit_flips::protocol::{Output, Profile, Stream};
use model::Failure;
use model::campaign::Logged;
use runs::{RunDir, Segment};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

pub const INJECTIONS: &str = "injections.jsonl";
pub const OUTPUTS: &str = "outputs.jsonl";
pub const CAMPAIGN: &str = "campaign.json";

/// All outputs that are kept together.
const OUTPUTS_BYTES: usize = 16 << 20;
/// One output, and the golden one.
const OUTPUT_BYTES: usize = 1 << 20;

/// The golden run of one variant, as later sessions compare theirs with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Golden {
    pub sha256: String,
    pub instructions: u64,
    pub sites: u64,
    /// Without streams if the output is large.
    pub profile: Profile,
}

impl Golden {
    pub fn of(profile: &Profile) -> Golden {
        let mut profile = profile.clone();
        let mut all = Vec::new();
        for stream in &profile.golden.streams {
            all.extend(stream.name.as_bytes());
            all.extend((stream.bytes.len() as u64).to_be_bytes());
            all.extend(&stream.bytes);
        }
        if all.len() > OUTPUT_BYTES {
            profile.golden.streams.clear();
        }
        let sha256 = crate::spec::digest(&all);
        Golden { sha256, instructions: profile.instructions, sites: profile.sites, profile }
    }

    pub fn file(variant: u32) -> String {
        format!("golden-{variant}.json")
    }
}

/// What an undetected one sent on the connections that differ.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sent {
    pub variant: u32,
    pub id: u32,
    pub streams: Vec<Stream>,
}

pub struct Log<'a> {
    dir: &'a RunDir,
    injections: Segment,
    outputs: Segment,
    outputs_room: usize,
    known: HashSet<(u32, u32)>,
}

impl<'a> Log<'a> {
    /// Opens the log, empty or of an earlier session, whose records `take` gets. A line that was cut off is dropped, one that is
    /// there twice is taken once.
    pub fn open(dir: &'a RunDir, mut take: impl FnMut(&Logged)) -> Result<Log<'a>, Failure> {
        let injections = dir.segment(INJECTIONS)?;
        let outputs = dir.segment(OUTPUTS)?;
        let mut known = HashSet::new();
        dir.each_record(INJECTIONS, |logged: Logged| {
            if known.insert((logged.variant, logged.id)) {
                take(&logged);
            }
        })?;
        let used = std::fs::metadata(dir.file(OUTPUTS)).map_or(0, |m| m.len() as usize);
        Ok(Log { dir, injections, outputs, outputs_room: OUTPUTS_BYTES.saturating_sub(used), known })
    }

    pub fn dir(&self) -> &RunDir {
        self.dir
    }

    pub fn known(&self, variant: u32) -> Vec<u32> {
        let mut ids: Vec<u32> = self.known.iter().filter(|(v, _)| *v == variant).map(|(_, id)| *id).collect();
        ids.sort_unstable();
        ids
    }

    /// False: it was there already, and nothing was written.
    pub fn append(&mut self, logged: &Logged) -> Result<bool, Failure> {
        if !self.known.insert((logged.variant, logged.id)) {
            return Ok(false);
        }
        self.injections.append(std::slice::from_ref(logged))?;
        Ok(true)
    }

    /// Waits until everything appended is on the disk.
    pub fn sync(&self) -> Result<(), Failure> {
        self.injections.sync()
    }

    /// Keeps what differs, while there is room.
    pub fn keep(&mut self, variant: u32, id: u32, golden: &Output, seen: &Output) -> Result<(), Failure> {
        let streams: Vec<Stream> = seen.streams.iter().filter(|s| !golden.streams.contains(s)).cloned().collect();
        let bytes: usize = streams.iter().map(|s| s.bytes.len() * 4 / 3 + s.name.len() + 64).sum();
        if bytes > OUTPUT_BYTES || bytes > self.outputs_room {
            return Ok(());
        }
        self.outputs_room -= bytes;
        self.outputs.append(&[Sent { variant, id, streams }])
    }
}
