//! Sweeps that are cut short, by Ctrl-C, by SIGKILL, by a service that really crashes: nothing is lost, nothing is left.

mod support;

use serde_json::Value;
use std::collections::BTreeSet;
use support::{Home, Shop, Started, can_shop, kill_dash_9, shop_target, wait_for};

const CASES: u64 = 16_384;

/// How many cases a run has on disk.
fn cases(home: &Home) -> usize {
    let runs = home.file(".faultloom/runs");
    let dirs = std::fs::read_dir(runs).into_iter().flatten().flatten();
    dirs.map(|d| std::fs::read_to_string(d.path().join("cases.jsonl")).map_or(0, |t| t.lines().count()))
        .max()
        .unwrap_or(0)
}

fn bugs(json: &Value) -> Vec<&str> {
    json["sweep"]["bugs"].as_array().unwrap().iter().map(|b| b["name"].as_str().unwrap()).collect()
}

/// A temporal sweep that starts the shop itself, one case at a time, seen at work.
fn begun(home: &Home) -> Started {
    let mut sweep =
        home.start(&["sweep", "-s", "crash-points", "-s", "temporal", "--concurrency", "1", "--expect-status", "200"]);
    wait_for("some hundred cases", || {
        assert!(!sweep.has_ended(), "{}", sweep.err_so_far());
        (cases(home) > 300).then_some(())
    });
    sweep
}

/// The rest of it, and what must be true at its end: every case once, with the verdict it has in an undisturbed sweep.
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
    let sweep = begun(&home);
    sweep.signal("INT");
    let ran = sweep.wait().exits(4).says("the sweep was stopped; what was run is kept").says("--resume ");
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
    // meanwhile nobody else may work on it
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

/// On a terminal there is a bar, with the rate and the time left; it is gone at the end.
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
fn a_killed_sweep_leaves_nothing_and_is_resumed() {
    if !can_shop() {
        return;
    }
    let home = Home::new("killed");
    shop_target(&home, "paper");
    let mut sweep = begun(&home);
    assert!(home.processes().len() >= 12, "the shop and the tool: {:?}", home.processes());
    sweep.signal("KILL");
    wait_for("its end", || sweep.has_ended().then_some(()));
    home.assert_nothing_runs();
    let before = cases(&home);
    // a crash may cut the last record off
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

/// Every service once, the entry among them, each while hundreds of cases are in flight.
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
    assert_eq!(
        (space["cases"].as_u64(), space["failures"].as_u64(), space["unknown"].as_u64()),
        (Some(CASES), Some(7_164), Some(0)),
        "crashed: {}, repeated: {}",
        json["crashed"],
        json["sweep"]["repeated"]
    );
    assert_eq!(json["crashed"], serde_json::json!(services));
    assert!(json["sweep"]["repeated"].as_u64().unwrap() >= 3, "{}", json["sweep"]["repeated"]);
    assert_eq!(bugs(&json), ["SimpleTFI", "DeepRLFI"]);
}

/// The same when the sweep itself has started the services.
#[test]
fn a_crash_is_said_in_words() {
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
    assert!(ran.err.contains("catalogue crashed by itself and was restarted; the case was run again"), "{}", ran.err);
}
