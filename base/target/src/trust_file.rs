//! Trust settings made for one `up`: who may ask its services for a history, who may plan faults.
//!
//! The text form is documented in `docs/formats/messages.md`, "Trust settings". The file is replaced by rename, so
//! an SDK never reads half of it. Keys are never printed by anything here.

use crate::atomic_file;
use model::Failure;
use std::io::Read;
use std::path::Path;

/// One environment with a trace key `t1` and a fault key `f1`.
#[derive(Clone)]
pub struct Trust {
    pub environment: String,
    trace_key: [u8; 32],
    fault_key: [u8; 32],
    pub faults_on: bool,
}

impl std::fmt::Debug for Trust {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Trust({}, faults {})", self.environment, if self.faults_on { "on" } else { "off" })
    }
}

impl Trust {
    /// New keys from the operating system's randomness; the environment is `<target name>-<4 hex digits>`.
    pub fn generate(target_name: &str) -> Result<Trust, Failure> {
        Ok(Trust {
            environment: format!("{target_name}-{}", hex(&random::<2>()?)),
            trace_key: random()?,
            fault_key: random()?,
            faults_on: true,
        })
    }

    /// The whole text, keys included: for the trust file, and for whoever signs requests.
    pub fn text(&self) -> String {
        format!(
            "environment {}\nkey trace t1 {}\nkey fault f1 {}\nfaults {}\n",
            self.environment,
            hex(&self.trace_key),
            hex(&self.fault_key),
            if self.faults_on { "on" } else { "off" },
        )
    }
}

/// Switches every fault on or off for all services that read the trust file, within 200 ms of their next request.
/// Keeps everything else in the file. Blocks for one small read and write.
pub fn switch_faults(trust_file: &Path, on: bool) -> Result<(), Failure> {
    let text = std::fs::read_to_string(trust_file).map_err(|error| {
        Failure::environment(format!("cannot read the trust file {}", trust_file.display()))
            .why(error.to_string())
            .next("is the target up? `faultloom ps` tells")
    })?;
    let line = if on { "faults on" } else { "faults off" };
    let mut lines: Vec<&str> = text.lines().filter(|line| line.split_whitespace().next() != Some("faults")).collect();
    lines.push(line);
    atomic_file::write(trust_file, &(lines.join("\n") + "\n"))
}

/// Bytes from the operating system's randomness.
pub(crate) fn random<const BYTES: usize>() -> Result<[u8; BYTES], Failure> {
    let mut bytes = [0; BYTES];
    std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes)).map_err(|error| {
        Failure::environment("cannot read /dev/urandom, so no keys can be made").why(error.to_string())
    })?;
    Ok(bytes)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
