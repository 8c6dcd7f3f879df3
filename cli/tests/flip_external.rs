//! `faultloom flip --external`: a command of the user disturbs the program.

use crate::flip::{campaign, number};
use crate::support::{Home, Started, wait_for};

#[test]
fn an_external_disturbance_is_judged_between_healthy_runs() {
    let home = Home::new("flip-external");
    home.write("state", "good\n");
    let state = home.file("state").display().to_string();
    let disturbance =
        format!("trap 'echo good > {state}; exit' TERM; echo bad > {state}; while :; do sleep 0.05; done");
    let args = ["flip", "--json", "--runs", "300", "--external"];
    let ran = home.run(&[&args[..], &[&disturbance, "--", "cat", &state]].concat()).exits(1);
    let campaign = campaign(&ran);
    // the shell empties the file before it writes, so a run may read nothing
    let runs =
        ["none", "undetected", "otherwise"].map(|outcome| number(&campaign, &format!("/variants/0/tally/{outcome}")));
    assert_eq!(runs.iter().sum::<u64>(), 300);
    assert!(number(&campaign, "/variants/0/tally/undetected") > 0, "disturbed");
    assert_eq!(
        (number(&campaign, "/variants/0/controls/run"), number(&campaign, "/variants/0/controls/deviating")),
        (3, 0)
    );
    assert_eq!(std::fs::read_to_string(&state).unwrap(), "good\n", "it could undo what it did");
    home.run(&["show"]).exits(0).says("external");
    home.run(&["report"]).exits(0);

    // a disturbance that is not undone: the last healthy run deviates, so the verdict is unknown
    let lasting = format!("echo bad > {state}");
    home.write("state", "good\n");
    let ran = home.run(&["flip", "--json", "--runs", "20", "--external", &lasting, "--", "cat", &state]);
    assert_eq!(ran.status.code(), Some(5), "{}", ran.out);
    home.write("state", "good\n");
    home.run(&["flip", "-q", "--runs", "1000", "--external", "exit 3", "--", "cat", &state])
        .exits(3)
        .says("the disturbance 'exit 3' failed");
}

#[test]
fn a_kill_during_an_external_disturbance_leaves_nothing() {
    let home = Home::new("flip-external-killed");
    home.write("disturb", "setsid sleep 1003 &\ntrap 'echo undone > state; exit' TERM\nwhile :; do sleep 0.01; done\n");
    std::fs::create_dir(home.file("temp")).unwrap();
    // the program: its environment has no mark, and its child leaves its group
    let program = format!("setsid sleep 1004.{} & sleep 0.05; kill $!; echo same", std::process::id());
    let arguments = ["flip", "-q", "--runs", "100000", "--external", "sh ./disturb", "--", "sh", "-c", &program];
    let mut command = home.command(&arguments);
    command.env("TMPDIR", home.file("temp"));
    let flip = Started::new(command);
    wait_for("the disturbance", || home.processes().iter().any(|(_, line)| line == "sleep 1003").then_some(()));
    let programs = || {
        let is_one = |pid: &u32| {
            std::fs::read(format!("/proc/{pid}/cmdline"))
                .is_ok_and(|line| String::from_utf8_lossy(&line).contains(&format!("1004.{}", std::process::id())))
        };
        process::pids().filter(is_one).collect::<Vec<u32>>()
    };
    let temporary = || std::fs::read_dir(home.file("temp")).unwrap().count();
    wait_for("the program", || programs().iter().any(|pid| pid != &flip.child.id()).then_some(()));
    assert_eq!(temporary(), 1);
    flip.signal("KILL");
    flip.wait();
    home.assert_nothing_runs();
    wait_for("the end of the program", || programs().is_empty().then_some(()));
    wait_for("the removal of temporary files", || (temporary() == 0).then_some(()));
    assert_eq!(std::fs::read_to_string(home.file("state")).unwrap(), "undone\n", "it could undo what it did");
}
