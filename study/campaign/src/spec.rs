//! The specification of a campaign. Stored with its run, so that the campaign can be resumed and each injection
//! repeated.

use crate::judge::Rules;
use crate::statistics;
use bit_flips::engine_messages::{Draw, Program};
use model::Failure;
use model::flip::{FlipGroup, FlipType};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    pub variants: Vec<VariantSpec>,
    /// The same for every variant: equal seed, equal sizes.
    pub draw: Draw,
    pub rules: Rules,
    /// Also tries every flip during the work for the reply that the sites select.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exhaustive: bool,
    /// The user's own disturbance instead of flips.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<External>,
    /// A running process instead of a program that is started. Its sites are those of the variant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<Live>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Live {
    pub pid: i32,
    /// Its start time in clock ticks since boot, which distinguishes it from a later process with the same pid.
    pub ticks: u64,
    /// For each flip, one of these is drawn.
    pub types: Vec<FlipType>,
    /// The number of flips, made one after the other.
    pub flips: u32,
    /// A shell command that sends requests to the process as a client does, and fails if a reply is wrong.
    pub check: Option<String>,
    /// Timeout of the check.
    pub timeout_ms: u64,
    /// How long to wait for the process to be busy.
    pub patience_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct External {
    pub command: String,
    pub runs: u32,
    /// A running server, `host:port`, that the input trace is played to.
    pub server: Option<String>,
    /// Timeout of one run.
    pub timeout_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VariantSpec {
    pub name: String,
    pub program: Program,
    /// Every file that determines the golden run, with its SHA-256.
    pub files: Vec<(PathBuf, String)>,
}

impl VariantSpec {
    pub fn new(name: impl Into<String>, program: Program) -> Result<VariantSpec, Failure> {
        let files = files_of(&program).into_iter().map(|path| {
            let sum = digest_of(&path)?;
            Ok((path, sum))
        });
        Ok(VariantSpec { name: name.into(), files: files.collect::<Result<_, Failure>>()?, program })
    }

    /// Refuses a program that has changed since the campaign began: ids would refer to other injections.
    pub fn check_unchanged(&self) -> Result<(), Failure> {
        for (path, sum) in &self.files {
            if digest_of(path)? != *sum {
                return Err(Failure::unknown(format!("{} has changed since the campaign began", path.display()))
                    .why("ids would refer to other injections")
                    .next("restore the file, or begin a new campaign"));
            }
        }
        Ok(())
    }
}

fn files_of(program: &Program) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = program.argv.first().map(PathBuf::from).into_iter().collect();
    files.extend(program.stdin.clone());
    files.extend(program.files.clone());
    files.extend(program.replay.as_ref().map(|replay| replay.input.clone()));
    files
}

fn digest_of(path: &Path) -> Result<String, Failure> {
    let bytes = std::fs::read(path).map_err(|e| Failure::request(format!("{} cannot be read: {e}", path.display())))?;
    Ok(digest(&bytes))
}

pub fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The share of flips that is expected to become errors. The paper's groups have 47 to 84 %.
const MANIFEST: f64 = 0.4;

/// How many flips of each type make each group's intervals at most `width` wide (0 to 1), if [`MANIFEST`] of them
/// become errors.
pub fn counts_for_width(types: &[FlipType], width: f64) -> Vec<(FlipType, u32)> {
    let flips = statistics::trials_for(width) as f64 / MANIFEST;
    let members = |group: FlipGroup| types.iter().filter(|kind| kind.group() == group).count();
    types.iter().map(|kind| (*kind, (flips / members(kind.group()) as f64).ceil().min(1e9) as u32)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::program;

    #[test]
    fn a_width_is_shared_by_the_types_of_a_group() {
        let counts = counts_for_width(FlipType::PAPER, 0.02);
        assert_eq!(counts[0], (FlipType::Cf, 24_000));
        assert_eq!(counts[1], (FlipType::Wreg, 6_000));
        assert_eq!(counts[5], (FlipType::Rreg, 12_000));
    }

    #[test]
    fn a_changed_file_is_refused() {
        let path = std::env::temp_dir().join(format!("faultloom-variant-{}", std::process::id()));
        std::fs::write(&path, "one").unwrap();
        let mut program = program();
        program.stdin = Some(path.clone());
        let variant = VariantSpec::new("a", program).unwrap();
        variant.check_unchanged().unwrap();
        std::fs::write(&path, "two").unwrap();
        let failure = variant.check_unchanged().unwrap_err();
        assert!(failure.to_string().contains("has changed"), "{failure}");
        std::fs::remove_file(path).unwrap();
    }
}
