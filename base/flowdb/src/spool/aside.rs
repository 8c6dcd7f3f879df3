//! Windows that a database refused for what they hold, kept for whoever looks into it.

use flows::Window;
use std::fs::OpenOptions;
use std::io::{Error, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// In the folder of the spool: a line of JSON for each window.
pub const REFUSED: &str = "refused.jsonl";
/// The first windows tell what is wrong; more of them would only fill the disk.
const MOST_BYTES: u64 = 16 << 20;

/// Appends the window, if there is room.
pub fn keep(folder: &Path, window: &Window) -> Result<(), Error> {
    let mut line = serde_json::to_vec(window)?;
    line.push(b'\n');
    let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(folder.join(REFUSED))?;
    if file.metadata()?.len() + line.len() as u64 > MOST_BYTES {
        return Ok(());
    }
    file.write_all(&line)
}
