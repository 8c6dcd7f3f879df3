//! Runs a program that renders manifests, with limits on time and output.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A rendering that loads remote bases takes some seconds.
const TIMEOUT: Duration = Duration::from_secs(60);
const BYTES_MAX: u64 = 32 << 20;

/// The path of a program in PATH.
pub fn program(name: &str) -> Option<PathBuf> {
    let paths = std::env::var_os("PATH")?;
    std::env::split_paths(&paths).map(|folder| folder.join(name)).find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

/// Standard output, or why there is none.
pub fn run(program: &Path, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("{}: {error}", program.display()))?;
    let read = |pipe: Option<Box<dyn Read + Send>>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            if let Some(pipe) = pipe {
                let _ = pipe.take(BYTES_MAX).read_to_end(&mut bytes);
            }
            String::from_utf8_lossy(&bytes).into_owned()
        })
    };
    let out = read(child.stdout.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>));
    let err = read(child.stderr.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>));
    let begin = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if begin.elapsed() < TIMEOUT => std::thread::sleep(Duration::from_millis(10)),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("it did not end within {} s", TIMEOUT.as_secs()));
            }
        }
    };
    let (out, err) = (out.join().unwrap_or_default(), err.join().unwrap_or_default());
    match status.success() {
        true => Ok(out),
        false => Err(reason(&err)),
    }
}

/// The line with the error, else the last line: some programs end with advice.
fn reason(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let is_error = |line: &&str| line.to_ascii_lowercase().starts_with("error:");
    let found = lines.clone().find(is_error).or_else(|| lines.clone().next_back()).unwrap_or("it failed");
    found.chars().take(500).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_the_error_and_not_the_advice_after_it() {
        assert_eq!(reason("Error: no port\n\nUse --debug\n"), "Error: no port");
        assert_eq!((reason("a\nb\n"), reason("")), ("b".to_owned(), "it failed".to_owned()));
    }

    #[test]
    fn output_and_failure_are_returned() {
        let sh = program("sh").unwrap();
        assert_eq!(run(&sh, &["-c", "echo out; echo err >&2"]).unwrap(), "out\n");
        assert_eq!(run(&sh, &["-c", "echo out; echo err >&2; exit 1"]).unwrap_err(), "err");
        assert!(program("no-such-program").is_none());
    }
}
