//! What tests start ends with them.

use crate::support::processes::{ChildProcess, exists};
use crate::support::{Home, Started, wait_for};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// Set for the binary that is killed.
const INNER: &str = "END_TO_END_INNER";

/// Runs only in the binary that is killed: starts a process, prints its pid, and never ends.
#[test]
fn starts_a_process_and_never_ends() {
    if std::env::var_os(INNER).is_none() {
        return;
    }
    let home = Home::new("inner");
    let process = ChildProcess::start(Command::new("sleep").arg("1000").stdin(Stdio::null()).stdout(Stdio::null()));
    println!("started {} in {}", process.pid(), home.path.display());
    loop {
        std::thread::sleep(std::time::Duration::from_secs(1));
    }
}

#[test]
fn a_killed_test_leaves_no_process_and_no_folder() {
    let mut inner = Command::new(std::env::current_exe().unwrap());
    inner.args(["--exact", "cleanup::starts_a_process_and_never_ends", "--nocapture"]).env(INNER, "1");
    let mut inner = ChildProcess::start(inner.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()));
    let lines = BufReader::new(inner.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    let line = lines.into_iter().find(|line| line.contains("started ")).expect("a line with the pid");
    let (pid, folder) = line.rsplit_once("started ").unwrap().1.split_once(" in ").unwrap();
    assert!(exists(pid) && std::path::Path::new(folder).exists());
    drop(inner); // by SIGKILL
    wait_for("the process's end", || (!exists(pid)).then_some(()));
    wait_for("the folder's removal", || (!std::path::Path::new(folder).exists()).then_some(()));
}

#[test]
fn a_panic_ends_the_process_and_its_services() {
    let process = ChildProcess::start(Command::new("sleep").arg("1000").stdin(Stdio::null()));
    let pid = process.pid();
    let panicked = std::thread::spawn(move || {
        let _process = process;
        let _home = Home::new("panic");
        panic!("as a failed assertion");
    });
    assert!(panicked.join().is_err());
    assert!(!exists(&pid));
}

/// The default action of Ctrl-C ends a verb that leaves nothing behind, also while it waits for input.
#[test]
fn ctrl_c_ends_a_verb_that_leaves_nothing_behind() {
    let home = Home::new("ctrl-c");
    // a shell may have started these tests in the background, with SIGINT ignored
    let mut command = Command::new("env");
    command.args(["--default-signal=INT", env!("CARGO_BIN_EXE_faultloom"), "import", "-"]).current_dir(&home.path);
    command.stdin(Stdio::piped());
    let mut import = Started::new(command);
    let input = import.child.stdin.take();
    let tasks = format!("/proc/{}/task", import.child.id());
    wait_for("its threads", || (std::fs::read_dir(&tasks).ok()?.count() > 1).then_some(()));
    import.signal("INT");
    let ran = import.wait();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&ran.status), Some(2), "{}", ran.err);
    drop(input);
}
