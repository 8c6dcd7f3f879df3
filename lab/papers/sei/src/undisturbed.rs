//! One undisturbed run of a server under replay, without a sandbox.

use model::replay::{self as format, InputTrace, OutputRecords};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(60);
/// Standard output, which a server in the foreground does not use.
const RECORDS: i32 = 1;

/// Plays `trace` to the server. Fails if the server does not end at the end of the trace.
pub fn replay(server: &[String], trace: &InputTrace) -> Result<OutputRecords, String> {
    let folder = Folder::new()?;
    let [program, arguments @ ..] = server else { return Err("no server is given".to_owned()) };
    let shim = replay::write(&folder.0).map_err(|e| e.to_string())?;
    let input = folder.0.join("input");
    crate::named(&input, std::fs::write(&input, trace.to_bytes()))?;
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(format::environment(&shim, &input, RECORDS, 1));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let server = command.spawn().map_err(|e| format!("{program}: {e}"))?;
    let bytes = output(server, Path::new(program))?;
    Ok(OutputRecords::parse(&bytes))
}

fn output(mut server: Child, program: &Path) -> Result<Vec<u8>, String> {
    let (to, from) = channel();
    let stdout = server.stdout.take();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = stdout.map_or(Ok(0), |mut stdout| std::io::Read::read_to_end(&mut stdout, &mut bytes));
        let _ = to.send(read.map(|_| bytes));
    });
    let read = match from.recv_timeout(TIMEOUT) {
        Ok(read) => crate::named(program, read),
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
            let _ = server.kill();
            Err(format!("{} did not finish its trace within {} s", program.display(), TIMEOUT.as_secs()))
        }
    };
    let status = crate::named(program, server.wait())?;
    let bytes = read?;
    if status.success() { Ok(bytes) } else { Err(format!("{} ended by {status}", program.display())) }
}

/// Removed when dropped.
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
