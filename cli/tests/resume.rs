//! Sweeps that are interrupted by Ctrl-C, SIGKILL or a crashing service: no case is lost, no process remains.

use crate::support::{Home, Shop, Started, can_shop, kill_dash_9, send_signal, shop_target, wait_for};
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

const CASES: u64 = 16_384;

/// The number of cases on disk of the largest run.
fn cases(home: &Home) -> usize {
    lines(home, "cases.jsonl")
}

fn lines(home: &Home, file: &str) -> usize {
    let runs = std::fs::read_dir(home.file(".faultloom/runs")).into_iter().flatten().flatten();
    runs.map(|run| std::fs::read_to_string(run.path().join(file)).map_or(0, |t| t.lines().count())).max().unwrap_or(0)
}

fn bugs(json: &Value) -> Vec<&str> {
    json["sweep"]["bugs"].as_array().unwrap().iter().map(|b| b["name"].as_str().unwrap()).collect()
}

/// A temporal sweep that starts the shop itself, one case at a time, after its first cases.
fn start_sweep(home: &Home) -> Started {
    let mut sweep =
        home.start(&["sweep", "-s", "crash-points", "-s", "temporal", "--concurrency", "1", "--expect-status", "200"]);
    wait_for("some hundred cases", || {
        assert!(!sweep.has_ended(), "{}", sweep.err_so_far());
        (cases(home) > 300).then_some(())
    });
    sweep
}

/// Resumes the sweep. At its end every case is stored once, with the verdict of an uninterrupted sweep.
fn resumed(home: &Home, before: usize) {
    let json = home.run(&["sweep", "--resume", "last", "--json", "-c", "32"]).exits(1).json();
    let spaces = json["sweep"]["spaces"].as_array().unwrap();
    assert_eq!((spaces[0]["cases"].as_u64(), spaces[0]["failures"].as_u64()), (Some(14), Some(10)));
    assert_eq!((spaces[1]["cases"].as_u64(), spaces[1]["failures"].as_u64()), (Some(CASES), Some(7_164)));
    assert_eq!(json["sweep"]["oracle"], "status 200", "the assertions of the first part still hold");
    assert_eq!(bugs(&json), ["SimpleTFI", "DeepRLFI"]);
    let run = json["run"].as_str().unwrap();
    let text = std::fs::read_to_string(home.file(&format!(".faultloom/runs/{run}/cases.jsonl"))).unwrap();
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(rows.len() >= before);
    let temporal: Vec<u64> = rows.iter().filter(|r| r["space"] == 1).map(|r| r["case"].as_u64().unwrap()).collect();
    assert_eq!((temporal.len() as u64, temporal.iter().collect::<BTreeSet<_>>().len() as u64), (CASES, CASES));
    assert_eq!(rows.len() as u64, CASES + 14);
    home.assert_nothing_runs();
    home.run(&["sweep", "--resume", "last"]).exits(2).says("is finished");
}

#[test]
fn ctrl_c_stops_a_sweep_and_resume_ends_it() {
    if !can_shop() {
        return;
    }
    let home = Home::new("interrupt");
    shop_target(&home, "paper");
    let sweep = start_sweep(&home);
    sweep.signal("INT");
    let ran = sweep.wait().exits(4).says("the sweep was stopped; the finished cases are stored").says("--resume ");
    home.assert_nothing_runs();
    let hint = ran.err.split("--resume ").nth(1).unwrap().split_whitespace().next().unwrap().to_owned();
    home.run(&["runs"]).exits(0).says("unfinished");
    for verb in ["show", "report"] {
        home.run(&[verb, &hint]).exits(5).says("is not finished").says("--resume");
    }
    let before = cases(&home);
    assert!(before < CASES as usize);
    // resumed, interrupted again, by SIGTERM this time
    let again = home.start(&["sweep", "--resume", &hint, "-c", "1"]);
    wait_for("more cases", || (cases(&home) > before + 100).then_some(()));
    // meanwhile no other process may resume it
    home.run(&["sweep", "--resume", &hint]).exits(3).says("another process is working on the run");
    again.signal("TERM");
    again.wait().exits(4).says("--resume");
    home.assert_nothing_runs();
    resumed(&home, before);
}

/// The first Ctrl-C waits for the requests in flight, the second does not.
#[test]
fn a_second_ctrl_c_ends_at_once() {
    if !can_shop() {
        return;
    }
    let home = Home::new("twice");
    shop_target(&home, "paper");
    // every call hangs until its own deadline of three seconds
    let mut sweep = home.start(&["sweep", "-s", "temporal", "-k", "hang", "--timeout-ms", "60000", "-c", "64"]);
    wait_for("the sweep", || sweep.err_so_far().contains("14 calls").then_some(()));
    wait_for("a case", || (cases(&home) > 0).then_some(()));
    sweep.signal("INT");
    wait_for("the first answer", || sweep.err_so_far().contains("Ctrl-C again ends at once").then_some(()));
    assert!(!sweep.has_ended());
    let begin = std::time::Instant::now();
    sweep.signal("INT");
    sweep.wait().exits(4);
    assert!(begin.elapsed().as_secs_f64() < 1.5, "{:?}", begin.elapsed());
    home.assert_nothing_runs();
    home.run(&["runs"]).exits(0).says("unfinished");
}

/// On a terminal there is a bar with the rate and the time left; it is removed at the end.
#[test]
fn a_terminal_shows_a_bar_with_rate_and_time_left() {
    if !can_shop() {
        return;
    }
    let home = Home::new("bar");
    shop_target(&home, "paper");
    let script = "import pty,sys,os; status=pty.spawn(sys.argv[1:]); sys.exit(os.waitstatus_to_exitcode(status))";
    let mut command = std::process::Command::new("python3");
    command.args(["-c", script, env!("CARGO_BIN_EXE_faultloom"), "sweep", "-s", "temporal"]).current_dir(&home.path);
    let ran = Started::new(command).wait().exits(1);
    assert!(ran.out.contains("of 16,384") && ran.out.contains("/s   ") && ran.out.contains(" left"), "{}", ran.out);
    assert!(ran.out.contains('█'), "{}", ran.out);
    let end = ran.out.rsplit(" left").next().unwrap();
    assert!(end.contains("✓ temporal") && end.contains("16,384 of 16,384"), "{end}");
}

#[test]
fn a_killed_sweep_leaves_no_process_and_is_resumed() {
    if !can_shop() {
        return;
    }
    let home = Home::new("killed");
    shop_target(&home, "paper");
    let mut sweep = start_sweep(&home);
    assert!(home.processes().len() >= 12, "the shop and the tool: {:?}", home.processes());
    sweep.signal("KILL");
    wait_for("its end", || sweep.has_ended().then_some(()));
    home.assert_nothing_runs();
    let before = cases(&home);
    // a crash may truncate the last record
    let run = std::fs::read_dir(home.file(".faultloom/runs")).unwrap().next().unwrap().unwrap().path();
    use std::io::Write;
    std::fs::File::options()
        .append(true)
        .open(run.join("cases.jsonl"))
        .unwrap()
        .write_all(b"{\"space\":1,\"ca")
        .unwrap();
    resumed(&home, before);
}

/// Every service crashes once, including the entry, while hundreds of cases are in flight.
#[test]
fn a_service_that_really_crashes_is_restarted_and_its_cases_are_repeated() {
    let Some(shop) = Shop::up("crash", "paper") else { return };
    let services = ["currency", "cart", "frontend"];
    let sweep = shop.home.start(&["sweep", "--json", "-s", "temporal", "-c", "32"]);
    let mut seen = 0;
    for service in services {
        wait_for("progress", || (cases(&shop.home) > seen + 1500).then_some(()));
        let pid = shop.pid(service);
        kill_dash_9(pid);
        wait_for("its restart", || (shop.pid(service) != pid).then_some(()));
        seen = cases(&shop.home);
    }
    let json = sweep.wait().exits(1).json();
    let space = &json["sweep"]["spaces"][0];
    let run = shop.home.file(&format!(".faultloom/runs/{}/cases.jsonl", json["run"].as_str().unwrap()));
    let text = std::fs::read_to_string(run).unwrap();
    let unknown: Vec<&str> = text.lines().filter(|line| line.contains("unknown")).collect();
    assert_eq!(
        (space["cases"].as_u64(), space["failures"].as_u64(), space["unknown"].as_u64()),
        (Some(CASES), Some(7_164), Some(0)),
        "crashed: {}, repeated: {}\n{}\n{}",
        json["crashed"],
        json["sweep"]["repeated"],
        unknown.join("\n"),
        shop.log("currency")
    );
    assert_eq!(json["crashed"], serde_json::json!(services));
    assert!(json["sweep"]["repeated"].as_u64().unwrap() >= 3, "{}", json["sweep"]["repeated"]);
    assert_eq!(bugs(&json), ["SimpleTFI", "DeepRLFI"]);
}

#[test]
fn after_a_crash_during_a_recording_the_request_is_sent_again() {
    let Some(shop) = Shop::up("crash-record", "paper") else { return };
    let record = shop.home.start(&["record", "-n", "3000"]);
    wait_for("requests", || (lines(&shop.home, "traces.jsonl") > 200).then_some(()));
    // stopped first: a kill between two requests would affect none
    let catalogue = shop.pid("catalogue");
    send_signal(catalogue, "STOP");
    let mut last = (0, Instant::now());
    wait_for("a request that waits for the catalogue", || {
        let now = lines(&shop.home, "traces.jsonl");
        if now != last.0 {
            last = (now, Instant::now());
        }
        (last.1.elapsed() > Duration::from_secs(1)).then_some(())
    });
    kill_dash_9(catalogue);
    let ran = record.wait().exits(0).says("3,000 requests, 0 failed");
    assert!(
        ran.err.contains("catalogue crashed on its own and was restarted; the request was sent again"),
        "{}",
        ran.err
    );
    shop.run(&["doctor"]).exits(0);
}

/// A service that crashes and cannot be restarted ends the sweep in order.
#[test]
fn a_service_that_cannot_be_restarted_ends_the_sweep_which_can_be_resumed() {
    if !can_shop() {
        return;
    }
    let home = Home::new("no-return");
    shop_target(&home, "paper");
    let (original, copy) = (crate::support::repository().join("out/shop/catalogue"), home.file("catalogue"));
    std::fs::copy(&original, &copy).unwrap();
    let text = std::fs::read_to_string(home.file("target.yaml")).unwrap();
    home.write("target.yaml", &text.replace(&original.display().to_string(), &copy.display().to_string()));
    let sweep = home.start(&["sweep", "-s", "temporal", "-c", "8"]);
    wait_for("progress", || (cases(&home) > 500).then_some(()));
    std::fs::remove_file(&copy).unwrap();
    let state = home.run(&["ps", "--json"]).exits(0).json();
    let service =
        state["state"]["services"].as_array().unwrap().iter().find(|s| s["name"] == "catalogue").unwrap().clone();
    kill_dash_9(service["process"]["pid"].as_i64().unwrap() as i32);
    let ran = sweep.wait().exits(3).says("service 'catalogue' cannot be started").says("--resume ");
    home.assert_nothing_runs();
    assert!(!ran.err.contains("panicked"), "{}", ran.err);
    std::fs::copy(&original, &copy).unwrap();
    let json = home.run(&["sweep", "--resume", "last", "--json", "-c", "32"]).exits(1).json();
    let space = &json["sweep"]["spaces"][0];
    assert_eq!((space["cases"].as_u64(), space["failures"].as_u64()), (Some(CASES), Some(7_164)));
}

/// An external target stops: cases that did not reach it are unknown.
#[test]
fn cases_that_never_reached_the_target_are_unknown() {
    let Some(shop) = Shop::up("away", "paper") else { return };
    let state = shop.run(&["ps", "--json"]).exits(0).json();
    let other = Home::new("away-other");
    std::fs::copy(state["state"]["trust_file"].as_str().unwrap(), other.file("trust")).unwrap();
    let sweep = other.start(&["sweep", &shop.url("/"), "--trust", "trust", "-s", "temporal", "-c", "8", "--json"]);
    wait_for("progress", || (cases(&other) > 500).then_some(()));
    let frontend = shop.pid("frontend");
    shop.run(&["down"]).exits(0);
    assert!(!std::path::Path::new(&format!("/proc/{frontend}")).exists());
    let ran = sweep.wait();
    shop.run(&["up", "-d"]).exits(0); // for the shop's own end
    let json = ran.exits(1).json();
    let space = &json["sweep"]["spaces"][0];
    assert_eq!(space["cases"].as_u64(), Some(CASES));
    let run = other.file(&format!(".faultloom/runs/{}/cases.jsonl", json["run"].as_str().unwrap()));
    let text = std::fs::read_to_string(run).unwrap();
    let unknown = text.lines().filter(|l| l.contains("the target cannot be reached")).count() as u64;
    // cases in flight at that moment may have any verdict
    let others = space["unknown"].as_u64().unwrap() - unknown;
    assert!(unknown > 1000 && others < 100, "{unknown} unreachable, {others} unknown for other reasons");
}

/// The same if the sweep has started the services.
#[test]
fn a_crash_is_reported_in_plain_text() {
    if !can_shop() {
        return;
    }
    let home = Home::new("crash-own");
    shop_target(&home, "paper");
    let sweep = home.start(&["sweep", "-s", "temporal", "-c", "16"]);
    wait_for("progress", || (cases(&home) > 1000).then_some(()));
    let state = home.run(&["ps", "--json"]).exits(0).json();
    let catalogue =
        state["state"]["services"].as_array().unwrap().iter().find(|s| s["name"] == "catalogue").unwrap().clone();
    kill_dash_9(catalogue["process"]["pid"].as_i64().unwrap() as i32);
    let ran = sweep.wait().exits(1).says("7,164 failures");
    assert!(ran.err.contains("catalogue crashed on its own and was restarted; the case was run again"), "{}", ran.err);
}
