//! Stores windows that the database rejected, for diagnosis.

use flows::Window;
use std::fs::OpenOptions;
use std::io::{Error, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// File in the spool's directory with one line of JSON per window.
pub const REFUSED: &str = "refused.jsonl";
/// Size limit; the first windows are enough for a diagnosis.
const BYTES_MAX: u64 = 16 << 20;

/// Appends the window if the file has room.
pub fn append(directory: &Path, window: &Window) -> Result<(), Error> {
    let mut line = serde_json::to_vec(window)?;
    line.push(b'\n');
    let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(directory.join(REFUSED))?;
    if file.metadata()?.len() + line.len() as u64 > BYTES_MAX {
        return Ok(());
    }
    file.write_all(&line)
}
