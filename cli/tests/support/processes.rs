//! Processes that end with the test, also if it panics or if its binary is killed.

use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;

/// A variable of everything that this test binary starts; its value is the binary's pid. Services inherit it.
const TEST_MARK: &str = "END_TO_END_TEST";

/// Waits for the end of the test binary, then kills what it left behind and removes its folders.
const CLEANUP: &str = r#"
read -r _
for _ in 1 2; do
  for environ in /proc/[0-9]*/environ; do
    if tr '\0' '\n' < "$environ" | grep -qx "$1=$2"; then
      pid=${environ#/proc/}
      kill -KILL "${pid%/environ}"
    fi
  done
done
rm -rf "$3"/faultloom-*-"$2"-[0-9]*
"#;

/// Marks a command as this test binary's.
pub fn mark(command: &mut Command) {
    static CLEANUP_INPUT: OnceLock<ChildStdin> = OnceLock::new();
    let own = std::process::id().to_string();
    CLEANUP_INPUT.get_or_init(|| {
        let temp = std::env::temp_dir();
        let mut cleanup = Command::new("sh");
        // in its own group, so that a signal to the binary's group does not end it
        std::os::unix::process::CommandExt::process_group(&mut cleanup, 0);
        cleanup
            .args(["-c", CLEANUP, "sh", TEST_MARK, &own])
            .arg(temp)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        cleanup.spawn().unwrap().stdin.take().unwrap()
    });
    command.env(TEST_MARK, own);
}

/// A process that is not started by the tool. Killed when this is dropped.
pub struct ChildProcess(pub Child);

impl ChildProcess {
    pub fn start(command: &mut Command) -> ChildProcess {
        mark(command);
        ChildProcess(command.spawn().unwrap())
    }

    pub fn pid(&self) -> String {
        self.0.id().to_string()
    }

    pub fn is_running(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether there is such a process. A zombie does not count.
pub fn exists(pid: &str) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid).join("stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}
