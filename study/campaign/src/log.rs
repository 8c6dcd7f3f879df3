//! A campaign's log in its run's folder. Results are recorded first and counted later, from these files alone.
//!
//! ```text
//! injections.jsonl    one line per injection and control, in the order in which they ended
//! outputs.jsonl       outputs of undetected errors, up to a total size
//! golden-N.json       the golden run of variant N: hash, sizes, output if it is small
//! campaign.json       tables, once the campaign is complete
//! ```

use bit_flips::engine_messages::Profile;
use model::Failure;
use model::campaign::Logged;
use model::flip::{Output, Stream};
use runs::{AppendFile, RunDir};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

pub const INJECTIONS: &str = "injections.jsonl";
pub const OUTPUTS: &str = "outputs.jsonl";
pub const CAMPAIGN: &str = "campaign.json";

/// The total size of stored outputs.
const OUTPUTS_BYTES: usize = 16 << 20;
/// The size of one output, and of the golden one.
const OUTPUT_BYTES: usize = 1 << 20;

/// The golden run of one variant, which later sessions compare theirs with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Golden {
    pub sha256: String,
    pub instructions: u64,
    pub sites: u64,
    /// Without output streams if these are large.
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

/// The output of an undetected error on the connections that differ.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sent {
    pub variant: u32,
    pub id: u32,
    pub streams: Vec<Stream>,
}

pub struct Log<'a> {
    dir: &'a RunDir,
    injections: AppendFile,
    outputs: AppendFile,
    outputs_left: usize,
    logged: HashSet<(u32, u32)>,
}

impl<'a> Log<'a> {
    /// Opens the log and passes the records of earlier sessions to `on_record`. A truncated line is dropped, and a
    /// duplicate is passed once.
    pub fn open(dir: &'a RunDir, mut on_record: impl FnMut(&Logged)) -> Result<Log<'a>, Failure> {
        let injections = dir.append_file(INJECTIONS)?;
        let outputs = dir.append_file(OUTPUTS)?;
        let mut ids = HashSet::new();
        dir.each_record(INJECTIONS, |logged: Logged| {
            if ids.insert((logged.variant, logged.id)) {
                on_record(&logged);
            }
        })?;
        let used = std::fs::metadata(dir.file(OUTPUTS)).map_or(0, |m| m.len() as usize);
        Ok(Log { dir, injections, outputs, outputs_left: OUTPUTS_BYTES.saturating_sub(used), logged: ids })
    }

    pub fn dir(&self) -> &RunDir {
        self.dir
    }

    /// The ids of a variant that are in the log.
    pub fn logged(&self, variant: u32) -> Vec<u32> {
        let mut ids: Vec<u32> = self.logged.iter().filter(|(v, _)| *v == variant).map(|(_, id)| *id).collect();
        ids.sort_unstable();
        ids
    }

    /// False: it was in the log already, and nothing was written.
    pub fn append(&mut self, logged: &Logged) -> Result<bool, Failure> {
        if !self.logged.insert((logged.variant, logged.id)) {
            return Ok(false);
        }
        self.injections.append(std::slice::from_ref(logged))?;
        Ok(true)
    }

    /// Waits until all appended records are on disk.
    pub fn sync(&self) -> Result<(), Failure> {
        self.injections.sync()
    }

    /// Keeps the streams that differ, up to the total size.
    pub fn keep(&mut self, variant: u32, id: u32, golden: &Output, output: &Output) -> Result<(), Failure> {
        let streams: Vec<Stream> = output.streams.iter().filter(|s| !golden.streams.contains(s)).cloned().collect();
        let bytes: usize = streams.iter().map(|s| s.bytes.len() * 4 / 3 + s.name.len() + 64).sum();
        if bytes > OUTPUT_BYTES || bytes > self.outputs_left {
            return Ok(());
        }
        self.outputs_left -= bytes;
        self.outputs.append(&[Sent { variant, id, streams }])
    }
}
