//! One run of a server under the replay shim, neither contained nor disturbed.

use bit_flips::output_records::Records;
use bit_flips::shim;
use bit_flips::trace_input::Trace;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);
/// Standard output: a server that runs by itself prints nothing there.
const RECORDS: i32 = 1;

/// Plays `trace` to the server. An error if it does not end at the end of the trace.
pub fn replay(server: &[String], trace: &Trace) -> Result<Records, String> {
    let folder = Folder::new()?;
    let [program, arguments @ ..] = server else { return Err("no server is named".to_owned()) };
    let shim = shim::write(&folder.0).map_err(|e| e.to_string())?;
    let input = folder.0.join("input");
    crate::named(&input, std::fs::write(&input, trace.to_bytes()))?;
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(shim::environment(&shim, &input, RECORDS, 1));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let server = command.spawn().map_err(|e| format!("{program}: {e}"))?;
    let bytes = output(server, Path::new(program))?;
    Ok(Records::read(&bytes))
}

fn output(mut server: Child, program: &Path) -> Result<Vec<u8>, String> {
    let (to, from) = channel();
    let stdout = server.stdout.take();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = stdout.map_or(Ok(0), |mut stdout| std::io::Read::read_to_end(&mut stdout, &mut bytes));
        let _ = to.send(read.map(|_| bytes));
    });
    let read = match from.recv_timeout(PATIENCE) {
        Ok(read) => crate::named(program, read),
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
            let _ = server.kill();
            Err(format!("{} did not come to the end of its trace in {} s", program.display(), PATIENCE.as_secs()))
        }
    };
    let status = crate::named(program, server.wait())?;
    let bytes = read?;
    if status.success() { Ok(bytes) } else { Err(format!("{} ended by {status}", program.display())) }
}

/// Gone with this value.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder, String> {
        let path = std::env::temp_dir().join(format!("sei-inputs-{}", std::process::id()));
        crate::named(&path, std::fs::create_dir_all(&path))?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
