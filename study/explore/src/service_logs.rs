//! What services write to their logs while a bug is reproduced: the last lines explain a crash.

use crate::recovery::CrashRecovery;
use model::sweep::LogExcerpt;
use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

const LINES_MAX: usize = 10;
const BYTES_MAX: u64 = 64 * 1024;
const LINE_CHARS_MAX: usize = 200;

/// What the runtimes of the four languages write first when a program or a handler ends unexpectedly, in lower case.
const CRASH_WORDS: [&str; 7] = ["panic", "fatal", "traceback", "exception", "uncaught", "unhandled", "sigsegv"];

/// The lengths of all logs at one moment.
pub(crate) struct LogMark {
    logs: HashMap<String, (PathBuf, u64)>,
}

impl LogMark {
    pub fn set(recovery: &CrashRecovery) -> LogMark {
        let length = |path: &Path| std::fs::metadata(path).map_or(0, |data| data.len());
        let logs = recovery.logs().into_iter().map(|(service, path)| {
            let length = length(&path);
            (service, (path, length))
        });
        LogMark { logs: logs.collect() }
    }

    /// What the service has written since: from the last line that names a crash on, else the last lines.
    pub fn excerpt(&self, service: &str) -> LogExcerpt {
        let mut excerpt = LogExcerpt { service: service.to_owned(), path: None, lines: Vec::new(), unreadable: None };
        let Some((path, begin)) = self.logs.get(service) else {
            excerpt.unreadable = Some("this tool did not start the service, so it has no log of it".to_owned());
            return excerpt;
        };
        excerpt.path = Some(path.display().to_string());
        match read(path, *begin) {
            Ok(text) => excerpt.lines = crash_lines(&text),
            Err(error) => excerpt.unreadable = Some(format!("its log cannot be read: {error}")),
        }
        if excerpt.lines.is_empty() && excerpt.unreadable.is_none() {
            excerpt.unreadable = Some("it wrote nothing to its log".to_owned());
        }
        excerpt
    }
}

fn read(path: &Path, begin: u64) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(begin.max(length.saturating_sub(BYTES_MAX))))?;
    let mut bytes = Vec::new();
    file.take(BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn crash_lines(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let names_crash = |line: &&str| {
        let line = line.to_lowercase();
        CRASH_WORDS.iter().any(|word| line.contains(word))
    };
    // of the lines of one crash, the first names it, and so may some of those that follow
    let last = lines.iter().rposition(names_crash);
    let first = last.map(|last| lines[last.saturating_sub(LINES_MAX - 1)..=last].iter().position(names_crash));
    let from = match (last, first.flatten()) {
        (Some(last), Some(first)) => last.saturating_sub(LINES_MAX - 1) + first,
        _ => lines.len().saturating_sub(LINES_MAX),
    };
    let printable = |c: &char| !c.is_control() || *c == '\t';
    let shorten = |line: &&str| line.chars().filter(printable).take(LINE_CHARS_MAX).collect();
    lines[from..].iter().take(LINES_MAX).map(shorten).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_begin_at_the_last_crash() {
        let crash = "panic: runtime error: index out of range\n\ngoroutine 7 [running]:\nmain.ship()\n";
        let text = format!("listening\n{crash}{}listening again\n", "request\n".repeat(30));
        let lines = crash_lines(&text);
        assert_eq!(lines[..2], ["panic: runtime error: index out of range", "goroutine 7 [running]:"]);
        assert_eq!(lines.len(), LINES_MAX);
        assert_eq!(crash_lines(&"line\n".repeat(12)).len(), LINES_MAX, "the last lines if none names a crash");
        assert_eq!(crash_lines(&format!("{}\u{1b}[31mend", "line\n".repeat(12))).last().unwrap(), "[31mend");
    }
}
