//! What a campaign was asked to do. Kept with its run, so that it can go on later and each injection can be repeated.

use crate::judge::Rules;
use crate::statistics;
use bit_flips::protocol::{Draw, Program};
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
    /// Then every flip there is in the work for the reply that the sites name.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exhaustive: bool,
    /// A disturbance of the user's own instead of flips: a shell command, and how many runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<External>,
    /// A process that runs already, instead of a program that is started. Its sites are those of the variant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<Live>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Live {
    pub pid: i32,
    /// When it began, in ticks since the machine did: a later process with the same number is another one.
    pub ticks: u64,
    /// For each flip, one of them is drawn.
    pub types: Vec<FlipType>,
    /// How many, one after the other.
    pub flips: u32,
    /// A shell command that asks the process as a client does, and fails if a reply is wrong.
    pub check: Option<String>,
    /// How long the check may take.
    pub timeout_ms: u64,
    /// How long to wait for the process to do something.
    pub patience_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct External {
    pub command: String,
    pub runs: u32,
    /// A server that runs already, `host:port`; it gets the input trace.
    pub server: Option<String>,
    /// How long one run may take.
    pub timeout_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VariantSpec {
    pub name: String,
    pub program: Program,
    /// Every file that the golden run follows from, with its SHA-256.
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

    /// Refuses a program that is not the one of before: ids would stand for other injections.
    pub fn is_unchanged(&self) -> Result<(), Failure> {
        for (path, sum) in &self.files {
            if digest_of(path)? != *sum {
                return Err(Failure::unknown(format!("{} is not what it was when the campaign began", path.display()))
                    .why("its injections would be others")
                    .next("bring the file back, or begin a new campaign"));
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

/// The share of flips that a plan expects to become errors, before anything is known. The paper's groups have 47 to 84 %.
const MANIFEST: f64 = 0.4;

/// How many flips of each type make each group's intervals at most `width` wide (0 to 1), if [`MANIFEST`] of them show.
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
    fn a_changed_file_is_noticed() {
        let path = std::env::temp_dir().join(format!("faultloom-variant-{}", std::process::id()));
        std::fs::write(&path, "one").unwrap();
        let mut program = program();
        program.stdin = Some(path.clone());
        let variant = VariantSpec::new("a", program).unwrap();
        variant.is_unchanged().unwrap();
        std::fs::write(&path, "two").unwrap();
        let failure = variant.is_unchanged().unwrap_err();
        assert!(failure.to_string().contains("is not what it was"), "{failure}");
        std::fs::remove_file(path).unwrap();
    }
}
