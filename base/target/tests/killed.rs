//! The tool as a separate process: interrupted, ended from another process, killed.

use crate::support::{Folder, free_port, get, server, wait_for};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command};
use target::{Down, is_alive, read_state};

/// A target of two services, one of which has a process in another session.
fn up(folder: &Folder) -> (Child, u16) {
    let port = free_port();
    let wild = "  - {name: wild, command: \"setsid sleep 1001 & trap '' TERM; while :; do sleep 1000; done\"}\n";
    folder.target(&(server("a", port) + wild));
    let mut child = folder.target_up();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "up"), "it must start");
    assert!(get(port, "/").contains("hello"));
    (child, port)
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
}

fn assert_nothing_remains(folder: &Folder) {
    wait_for("all processes to end", || folder.processes().is_empty().then_some(()));
    wait_for("the files to go", || {
        ["up.json", "trust", "status"].iter().all(|left| !folder.state().join(left).exists()).then_some(())
    });
}

#[test]
fn sigkill_of_the_tool_leaves_no_process() {
    let folder = Folder::new();
    let (mut child, _) = up(&folder);
    signal(&child, "-KILL");
    child.wait().unwrap();
    assert_nothing_remains(&folder);
}

#[test]
fn sigkill_of_tool_and_reaper_is_cleaned_up_by_down() {
    let folder = Folder::new();
    let (mut child, port) = up(&folder);
    let reaper = folder.reaper_of(&child);
    assert!(Command::new("kill").args(["-KILL", &reaper.to_string()]).status().unwrap().success());
    signal(&child, "-KILL");
    child.wait().unwrap();
    let state = read_state(&folder.state()).unwrap().expect("no process was left to remove it");
    assert!(!is_alive(&state) && get(port, "/").contains("hello"), "its services still run");
    let done = runtime().block_on(target::down(&folder.state())).unwrap();
    let services = vec!["a".to_owned(), "wild".to_owned()];
    assert_eq!(done, Down::CleanedUp { target: "shop".into(), services });
    assert_nothing_remains(&folder);
}

#[test]
fn a_new_start_cleans_up_after_a_killed_one() {
    let folder = Folder::new();
    let (mut child, port) = up(&folder);
    let reaper = folder.reaper_of(&child);
    assert!(Command::new("kill").args(["-KILL", &reaper.to_string()]).status().unwrap().success());
    signal(&child, "-KILL");
    child.wait().unwrap();
    let (options, events) = folder.options_with_events();
    let target = folder.target(&server("a", port));
    runtime().block_on(async {
        let supervisor = target::Supervisor::start(target, options).await.unwrap();
        assert_eq!(events.lock().unwrap()[0], "stopping the remaining processes of shop");
        assert_eq!(folder.processes().len(), 1, "only the new service");
        supervisor.stop().await.unwrap();
    });
    assert_nothing_remains(&folder);
}

#[test]
fn down_from_another_process_stops_everything() {
    let folder = Folder::new();
    let (mut child, _) = up(&folder);
    // Without a wait it would remain as a zombie.
    let waiting = std::thread::spawn(move || child.wait().unwrap());
    let done = runtime().block_on(target::down(&folder.state())).unwrap();
    assert!(matches!(done, Down::Stopped { .. }), "{done:?}");
    assert!(waiting.join().unwrap().success());
    assert_nothing_remains(&folder);
    assert_eq!(runtime().block_on(target::down(&folder.state())).unwrap(), Down::NothingUp);
}

#[test]
fn sigint_to_the_whole_terminal_group_ends_in_order() {
    let folder = Folder::new();
    let (mut child, _) = up(&folder);
    let reaper = folder.reaper_of(&child);
    // As a terminal would, if the reaper were still in its group.
    assert!(Command::new("kill").args(["-INT", &reaper.to_string()]).status().unwrap().success());
    assert!(Command::new("kill").args(["-TERM", &reaper.to_string()]).status().unwrap().success());
    signal(&child, "-INT");
    assert!(child.wait().unwrap().success());
    assert!(folder.processes().is_empty());
    assert_nothing_remains(&folder);
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Runtime::new().unwrap()
}
