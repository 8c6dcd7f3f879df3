//! The trust settings of one `up`: keys that permit histories and faults.
//!
//! The text form is documented in `docs/formats/messages.md`, "Trust settings". The file is replaced by rename, so
//! an SDK never reads a part of it. Nothing here prints keys.

use crate::state::atomic_file;
use model::Failure;
use std::io::Read;
use std::path::Path;

/// In the folder of an `up` whose keys are generated for it alone.
pub(crate) const NAME: &str = "trust";

/// One environment, with a trace key `t1` and a fault key `f1` if generated here.
#[derive(Clone)]
pub struct Trust {
    pub environment: String,
    text: String,
}

impl std::fmt::Debug for Trust {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Trust({})", self.environment)
    }
}

impl Trust {
    /// New keys from the operating system's randomness; the environment is `<target name>-<4 hex digits>`.
    pub fn generate(target_name: &str) -> Result<Trust, Failure> {
        let environment = format!("{target_name}-{}", hex(&random::<2>()?));
        let (trace, fault) = (hex(&random::<32>()?), hex(&random::<32>()?));
        let text = format!("environment {environment}\nkey trace t1 {trace}\nkey fault f1 {fault}\nfaults on\n");
        Ok(Trust { environment, text })
    }

    /// The settings in a permanent file. If it does not exist, it is created with new keys, readable by its owner only.
    ///
    /// Errors: the file cannot be read or written, or names no environment.
    pub fn load_or_create(file: &Path, target_name: &str) -> Result<Trust, Failure> {
        let text = match std::fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let trust = Trust::generate(target_name)?;
                let folder = file.parent().unwrap_or(Path::new("/"));
                atomic_file::create_folder(folder)?;
                atomic_file::write(file, &trust.text)?;
                return Ok(trust);
            }
            Err(error) => return Err(cannot_read(file, &error).next("make it readable for you")),
        };
        let environment = text.lines().find_map(|line| line.trim().strip_prefix("environment "));
        let environment = environment.map(|name| name.trim().to_owned()).ok_or_else(|| {
            Failure::environment(format!("the trust file {} names no environment", file.display()))
                .next("remove it and a new one is generated; then restart the services that use it")
        })?;
        Ok(Trust { environment, text })
    }

    /// The whole text, keys included: for the trust file, and for signing requests.
    pub fn text(&self) -> String {
        self.text.clone()
    }
}

fn cannot_read(file: &Path, error: &std::io::Error) -> Failure {
    Failure::environment(format!("cannot read the trust file {}", file.display())).why(error.to_string())
}

/// Switches every fault on or off for all services that read the trust file, within 200 ms of their next request.
/// Keeps everything else in the file. Blocks for one small read and write.
pub fn switch_faults(trust_file: &Path, on: bool) -> Result<(), Failure> {
    let text = std::fs::read_to_string(trust_file)
        .map_err(|error| cannot_read(trust_file, &error).next("check with `faultloom ps` whether the target is up"))?;
    let line = if on { "faults on" } else { "faults off" };
    let mut lines: Vec<&str> = text.lines().filter(|line| line.split_whitespace().next() != Some("faults")).collect();
    lines.push(line);
    atomic_file::write(trust_file, &(lines.join("\n") + "\n"))
}

/// Bytes from the operating system's randomness.
pub(crate) fn random<const BYTES: usize>() -> Result<[u8; BYTES], Failure> {
    let mut bytes = [0; BYTES];
    std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes)).map_err(|error| {
        Failure::environment("cannot read /dev/urandom, so no keys can be generated").why(error.to_string())
    })?;
    Ok(bytes)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
