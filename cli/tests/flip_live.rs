//! `faultloom flip live` with a real memcached, and with processes that must be left alone.

use crate::support::memcached::{self, Memcached};
use crate::support::processes::ChildProcess;
use crate::support::{Home, Started, skipped, wait_for};
use serde_json::Value;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The status of every thread that is traced or stopped.
fn traced_or_stopped(pid: &str) -> Vec<String> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let status = threads.map(|thread| std::fs::read_to_string(thread.path().join("status")).unwrap_or_default());
    let traced = |line: &str| line.starts_with("TracerPid:") && !line.ends_with("\t0");
    let stopped = |line: &str| line.starts_with("State:\tT") || line.starts_with("State:\tt");
    status.filter(|status| status.lines().any(|line| traced(line) || stopped(line))).collect()
}

/// Whether a traced thread is blocked in a system call.
fn is_blocked(pid: &str) -> bool {
    traced_or_stopped(pid).iter().any(|status| status.contains("State:\tS"))
}

/// Runs for each line that is written to it, and waits in between.
fn reader() -> ChildProcess {
    let mut command = Command::new("sh");
    command.args(["-c", "while read line; do :; done"]).stdin(Stdio::piped());
    ChildProcess::start(command.stdout(Stdio::null()).stderr(Stdio::null()))
}

/// False, with a counted skip, if processes cannot be traced here.
fn can_trace(home: &Home) -> bool {
    let mut target = reader();
    let mut input = target.0.stdin.take().unwrap();
    let args = ["flip", "live", &target.pid(), "--yes-corrupt-it", "--symbol", "no_such_function"];
    let mut tool = home.start(&args);
    while !tool.has_ended() {
        input.write_all(b"a line\n").expect("it reads");
        std::thread::sleep(Duration::from_millis(1));
    }
    let ran = tool.wait().exits(3);
    if ran.err.contains("cannot be traced") {
        skipped(ran.err.lines().next().unwrap_or_default());
        return false;
    }
    ran.says("nothing was flipped");
    true
}

fn prepared(name: &str) -> Option<Home> {
    let home = Home::new(name);
    (memcached::installed() && can_trace(&home)).then_some(home)
}

fn number(value: &Value, path: &str) -> u64 {
    value.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("{path} of {value}"))
}

fn log(home: &Home, run: &str) -> PathBuf {
    home.file(&format!(".faultloom/runs/{run}/injections.jsonl"))
}

/// Tallies, verdict, log and the state of the process are consistent.
fn assert_consistent(home: &Home, server: &mut Memcached, result: &Value, status: Option<i32>) {
    let variant = &result["campaign"]["variants"][0];
    let of = |key: &str| number(variant, &format!("/tally/{key}"));
    let tried: u64 = ["none", "undetected", "hardening", "otherwise", "inactive", "unjudged"].map(of).iter().sum();
    assert_eq!(tried + number(variant, "/missing"), number(variant, "/planned"), "{variant}");
    // a wrong reply to a check during which nothing was flipped, by an earlier flip
    let late = number(variant, "/controls/deviating");
    assert_eq!(number(variant, "/controls/run"), 2 + late, "{variant}");
    let verdict = result["verdict"].as_str().unwrap();
    let expected = match verdict {
        "pass" => (0, of("undetected") == 0),
        "fail" => (1, of("undetected") > 0),
        _ => (5, late > 0 || tried == of("inactive") || number(variant, "/missing") > 0 || of("unjudged") > 0),
    };
    assert_eq!((status, expected.1), (Some(expected.0), true), "{result}");
    assert_eq!(variant["live"]["runs"], server.process.is_running(), "{variant}");
    assert_eq!(traced_or_stopped(&server.process.pid()), Vec::<String>::new(), "released");
    for flip in variant["live"]["flips"].as_array().unwrap() {
        let injection = &flip["injection"];
        assert!(flip["live"]["thread"].is_u64() && injection["bit"].is_u64(), "{flip}");
        assert!(injection["instruction"].is_string() && !injection["module"].as_str().unwrap().is_empty(), "{flip}");
        let harmless = flip["outcome"] == "none" || flip["effect"]["activated"] == false;
        assert!(harmless || flip["remark"].is_string() || flip["live"]["runs"] == false, "{flip}");
    }
    let lines = std::fs::read_to_string(log(home, result["run"].as_str().unwrap())).unwrap().lines().count() as u64;
    assert_eq!(lines, tried + 2 + late, "every flip, and both checks before");
}

#[test]
fn flips_in_a_running_server_are_judged_and_the_server_is_released() {
    let Some(home) = prepared("flip-live") else { return };
    let mut wrong = 0;
    for round in 0..4 {
        let mut server = Memcached::start(&home);
        let (pid, check) = (server.process.pid(), server.check.clone());
        let args = ["flip", "live", &pid, "--yes-corrupt-it", "--json", "-n", "3", "--check", &check];
        let ran = home.run(&args);
        let result = ran.json();
        assert_consistent(&home, &mut server, &result, ran.status.code());
        let tally = &result["campaign"]["variants"][0]["tally"];
        wrong += number(tally, "/undetected") + number(tally, "/otherwise");
        let run = result["run"].as_str().unwrap();
        home.run(&["show", run]).exits(0).says("memcached · process").says(" at ");
        if round == 0 {
            home.run(&["runs"]).exits(0).says(" undetected").says("memcached");
            let page = home.run(&["report", run]).exits(0).out;
            assert!(std::fs::read_to_string(home.file(page.trim())).unwrap().contains("None of them can be repeated"));
            home.run(&["flip", "replay", &format!("{run}:0")]).exits(2).says("cannot be repeated").says("--replay");
            home.run(&["flip", "--resume", run]).exits(2);
            home.run(&["diff", run, run]).exits(0);
            home.run(&["export", run]).exits(2).says("no trace");
        }
    }
    // healthy again
    Memcached::start(&home);
    println!("{wrong} of 12 flips did harm");
}

#[test]
fn without_a_check_the_verdict_is_unknown() {
    let Some(home) = prepared("flip-live-unchecked") else { return };
    let mut server = Memcached::start(&home);
    let pid = server.process.pid();
    let mut tool =
        home.start(&["flip", "live", &pid, "--yes-corrupt-it", "--json", "--type", "rreg", "--bits", "low32"]);
    while !tool.has_ended() {
        server.answers(); // it runs only for a request
    }
    let ran = tool.wait();
    let variant = &ran.json()["campaign"]["variants"][0];
    assert_eq!(variant["rows"][0]["name"], "RD", "{variant}");
    match variant["live"]["runs"].as_bool().unwrap() {
        true => ran.exits(5),
        false => ran.exits(0),
    };
    assert_eq!(traced_or_stopped(&pid), Vec::<String>::new());
    server.process.is_running();
}

#[test]
fn ctrl_c_or_the_tools_death_leaves_the_process_running_and_untraced() {
    let home = Home::new("flip-live-stop");
    if !can_trace(&home) {
        return;
    }
    for signal in ["INT", "TERM", "KILL"] {
        let mut target = reader();
        let (pid, mut input) = (target.pid(), target.0.stdin.take().unwrap());
        let never = ["flip", "live", &pid, "--yes-corrupt-it", "--symbol", "no_such_function", "--wait-ms", "3600000"];
        // input until it is attached; then it blocks
        let tool = wait_for("a thread that is traced", || {
            let mut command = home.command(&never);
            let mut tool = Started::new({
                command.process_group(0);
                command
            });
            while traced_or_stopped(&pid).is_empty() && !tool.has_ended() {
                input.write_all(b"a line\n").expect("it reads");
                std::thread::sleep(Duration::from_millis(1));
            }
            // or it was detached again because it was too busy
            wait_for("it to wait, or to be let go", || (is_blocked(&pid) || tool.has_ended()).then_some(()));
            (!tool.has_ended()).then_some(tool)
        });
        home.run(&never).exits(2).says("already traces it");
        let group = format!("-{}", tool.child.id());
        assert!(Command::new("kill").args([&format!("-{signal}"), "--", &group]).status().unwrap().success());
        let ran = tool.wait();
        if signal != "KILL" {
            ran.exits(4).says("the process was released");
        }
        home.assert_nothing_runs();
        assert_eq!(traced_or_stopped(&pid), Vec::<String>::new(), "{signal}");
        assert!(target.is_running(), "{signal}");
        input.write_all(b"a line\n").expect("it reads");
        drop(input);
        assert!(target.0.wait().unwrap().success(), "it runs to its end");
    }
    let runs = home.run(&["runs", "--json"]).json();
    assert!(
        runs.as_array().unwrap().iter().all(|run| run["verdict"].is_null()),
        "only what was killed is left: {runs}"
    );
}

#[test]
fn finished_flips_are_stored_when_the_others_are_canceled() {
    let Some(home) = prepared("flip-live-kept") else { return };
    let mut server = Memcached::start(&home);
    let (pid, check) = (server.process.pid(), server.check.clone());
    // high bits of flags and of vectors are rarely used, so the server may run long enough
    let args = ["flip", "live", &pid, "--yes-corrupt-it", "--json", "-n", "100000", "--check", &check];
    let mut command = home.command(&[&args[..], &["--types", "RREG,WREG"]].concat());
    command.process_group(0);
    let mut tool = Started::new(command);
    wait_for("a flip", || {
        let run = home.run(&["runs", "--json"]).json()[0]["id"].as_str().map(str::to_owned);
        let flips = run.and_then(|run| std::fs::read_to_string(log(&home, &run)).ok());
        (tool.has_ended() || flips.is_some_and(|text| text.contains("\"live\""))).then_some(())
    });
    // unless the process has ended, 100,000 flips remain
    let _ = Command::new("kill").args(["-INT", "--", &format!("-{}", tool.child.id())]).stderr(Stdio::null()).status();
    let ran = tool.wait();
    let result = ran.json();
    let variant = &result["campaign"]["variants"][0];
    match ran.status.code() {
        Some(4) => assert!(number(variant, "/missing") > 0 && variant["live"]["runs"] == true, "{variant}"),
        // it ended or hung before
        _ => assert!(variant["live"]["runs"] == false || variant["remarks"][0].is_string(), "{variant}"),
    }
    assert_eq!(traced_or_stopped(&pid), Vec::<String>::new());
    assert_eq!(variant["live"]["runs"], server.process.is_running());
    home.assert_nothing_runs();
    home.run(&["show"]).exits(0).says("process");
}

#[test]
fn processes_that_must_not_be_corrupted_are_refused() {
    let home = Home::new("flip-live-refused");
    let mut target = reader();
    let pid = target.pid();
    let refused = home.run(&["flip", "live", &pid]).exits(2).says("would be corrupted").says("nothing can be undone");
    assert!(refused.err.contains(&format!("flip live {pid} --yes-corrupt-it")), "{}", refused.err);
    let yes = |pid: &str| home.run(&["flip", "live", pid, "--yes-corrupt-it"]).exits(2);
    yes("1").says("PID 1");
    yes("2147483647").says("there is no process");
    yes(&std::process::id().to_string()).says("one of its ancestors");
    let ended = {
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        child.id().to_string()
    };
    yes(&ended).says("there is no process");
    for words in [&["0"][..], &["-5"], &["x"], &[], &[&pid, "-n", "0"], &[&pid, "--handler", "x"]] {
        home.run(&[&["flip", "live", "--yes-corrupt-it"], words].concat()).exits(2);
    }
    match kernel_thread() {
        Some(thread) => _ = yes(&thread).says("kernel thread"),
        None => skipped("no thread of the kernel is seen here"),
    }
    let mut own = Started::new(home.command(&["flip", "live", &pid, "--yes-corrupt-it", "--wait-ms", "3600000"]));
    wait_for("its tracer", || home.processes().iter().any(|(_, line)| line.contains("flip-tracer")).then_some(()));
    yes(&own.child.id().to_string()).says("this tool's program");
    assert!(!own.has_ended());
    own.signal("INT");
    own.wait().exits(4);
    home.run(&["flip", "live", &pid, "--yes-corrupt-it", "--check", "echo no server >&2; false"])
        .exits(3)
        .says("the check fails before anything is flipped")
        .says("no server");
    home.run(&["flip", "live", &pid, "--yes-corrupt-it", "--wait-ms", "50"]).exits(3).says("is idle");
    assert!(target.is_running());
    assert_eq!(home.run(&["runs", "--json"]).json(), serde_json::json!([]), "what was refused is no run");
}

fn kernel_thread() -> Option<String> {
    let status = std::fs::read_to_string("/proc/2/status").ok()?;
    (status.starts_with("Name:\tkthreadd\n") && status.contains("\nPPid:\t0\n")).then(|| "2".to_owned())
}
