//! What a killed process must not leave behind: processes, listening ports, temporary files, keys and states of
//! targets, folders without a run.

use super::world::World;
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

/// The reaper waits a second between SIGTERM and SIGKILL; the rest is for busy machines.
const END_TIMEOUT: Duration = Duration::from_secs(30);

/// Waits for the end of what is to end. Returns what is left of processes and of a target's state.
pub fn of_processes(world: &World) -> Vec<String> {
    let begin = Instant::now();
    loop {
        let left = processes(world);
        if left.is_empty() {
            break;
        }
        if begin.elapsed() > END_TIMEOUT {
            return left;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut left = Vec::new();
    if let Err(e) = TcpListener::bind(("127.0.0.1", world.port)) {
        left.push(format!("port {}: {e}", world.port));
    }
    for file in files(&world.home.file(".faultloom/up")) {
        if file != "lock" && !file.starts_with("logs/") {
            left.push(format!(".faultloom/up/{file}"));
        }
    }
    left.extend(files(&world.home.file("temp")).into_iter().map(|file| format!("temp/{file}")));
    left
}

fn processes(world: &World) -> Vec<String> {
    let mut left: Vec<String> =
        world.home.processes().into_iter().map(|(pid, command)| format!("process {pid}: {command}")).collect();
    // a contained program has an environment of its own
    for pid in process::pids() {
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        if command.contains(&world.program) {
            left.push(format!("contained process {pid}: {command}"));
        }
    }
    left
}

/// Cleans up as a user does: removes folders without a run, and all runs. Returns what is left in the store, and what
/// did not work.
pub fn of_store(world: &World) -> Vec<String> {
    let cleaned = world.home.run(&["runs", "--clean", "--json"]);
    if cleaned.status.code() != Some(0) {
        return vec![format!("runs --clean: {}{}", cleaned.out, cleaned.err)];
    }
    let listed = world.home.run(&["runs", "--json", "-n", "1000"]);
    let runs = if listed.status.code() == Some(0) { listed.json() } else { return vec![listed.err] };
    let mut left = Vec::new();
    for run in runs.as_array().into_iter().flatten().filter_map(|run| run["id"].as_str()) {
        let deleted = world.home.run(&["runs", "--delete", run]);
        if deleted.status.code() != Some(0) {
            left.push(format!("runs --delete {run}: {}", deleted.err));
        }
    }
    // each `up` writes the schema for editors again
    let kept = ["store.db", "store.db-wal", "store.db-shm", "runs/", "up.log", "up/lock", "keys/t.trust"];
    let is_kept =
        |file: &String| kept.contains(&file.as_str()) || file.starts_with("up/logs/") || file == "target.schema.json";
    let files = files(&world.home.file(".faultloom")).into_iter().filter(|file| !is_kept(file));
    left.extend(files.map(|file| format!(".faultloom/{file}")));
    left
}

/// Files and empty folders below a folder, as relative paths; those of folders end with a slash.
fn files(folder: &Path) -> Vec<String> {
    fn add(folder: &Path, prefix: &str, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                found.push(name);
                continue;
            }
            let before = found.len();
            add(&entry.path(), &format!("{name}/"), found);
            if found.len() == before {
                found.push(format!("{name}/"));
            }
        }
    }
    let mut found = Vec::new();
    add(folder, "", &mut found);
    found.sort();
    found
}
