//! The tool as a separate process: interrupted, ended from another process, killed.

use crate::support::{Folder, children_of, free_port, get, server, wait_for};
use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command};
use target::{Down, is_alive, read_state};

/// A target of two services, one of which has a process in another session.
fn up(folder: &Folder) -> (Child, u16) {
    let (child, port, _) = up_with_output(folder);
    (child, port)
}

/// The output that follows is returned too.
fn up_with_output(folder: &Folder) -> (Child, u16, Lines<BufReader<ChildStdout>>) {
    let port = free_port();
    let wild = "  - {name: wild, command: \"setsid sleep 1001 & trap '' TERM; while :; do sleep 1000; done\"}\n";
    folder.target(&(server("a", port) + wild));
    let mut child = folder.target_up();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "up"), "it must start");
    assert!(get(port, "/").contains("hello"));
    (child, port, lines)
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

/// SIGKILL of both. The tool is stopped first, so that it cannot start another reaper in between.
fn kill_tool_and_reaper(folder: &Folder, child: &mut Child) {
    let reaper = folder.reaper_of(child);
    signal(child, "-STOP");
    kill(reaper);
    signal(child, "-KILL");
    child.wait().unwrap();
}

fn kill(pid: i32) {
    assert!(Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap().success());
}

/// A killed reaper was replaced only when a service was restarted; until then, services survived a kill of the tool.
#[test]
fn after_a_kill_of_the_reaper_a_new_one_ends_the_services_of_a_killed_tool() {
    let folder = Folder::new();
    let (mut child, port, mut lines) = up_with_output(&folder);
    let mut reapers = vec![folder.reaper_of(&child)];
    for _ in 0..3 {
        kill(*reapers.last().unwrap());
        // printed when the new reaper has everything that the killed one had
        assert!(lines.any(|line| line.unwrap().contains("was killed; a new one was started")));
        let now = children_of(child.id(), "faultloom-reaper");
        assert!(now.len() == 1 && !reapers.contains(&now[0]), "{now:?} after {reapers:?}");
        reapers.extend(now);
        assert!(get(port, "/").contains("hello"), "its services are not affected");
    }
    signal(&child, "-KILL");
    child.wait().unwrap();
    assert_nothing_remains(&folder);
}

#[test]
fn sigkill_of_tool_and_reaper_is_cleaned_up_by_down() {
    let folder = Folder::new();
    let (mut child, port) = up(&folder);
    kill_tool_and_reaper(&folder, &mut child);
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
    kill_tool_and_reaper(&folder, &mut child);
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
