//! A resumed sweep has the options of the interrupted one; only those that its help names may be given again.
//!
//! A sweep that was started with `-c 1` was resumed with 16 requests at once, raced with itself and ordered more.

use crate::support::front::Front;
use crate::support::service::TRUST;
use crate::support::{Home, wait_for};
use std::time::{Duration, Instant};

const TARGET: &str = "name: t\nservices:\n  - {name: extra, listens: [\"127.0.0.1:9\"]}\n";

fn home(name: &str) -> Home {
    let home = Home::new(name);
    std::fs::create_dir(home.file("files")).unwrap();
    home.write("files/trust", TRUST);
    home.write("files/other.yaml", TARGET);
    home
}

/// A sweep that was interrupted after its first cases, with every option that can be given by a path, and `-c 1`.
fn interrupted(home: &Home, front: &Front) {
    let files = home.file("files");
    let options =
        ["sweep", "-s", "temporal", "-c", "1", "--trust", "trust", "-t", "other.yaml", "--junit", "junit.xml"];
    let mut command =
        home.command(&[&options[..], &["--home", "../.faultloom", "--expect-status", "200", &front.url]].concat());
    command.current_dir(&files);
    let mut sweep = crate::support::Started::new(command);
    wait_for("some cases", || {
        assert!(!sweep.has_ended(), "{}", sweep.err_so_far());
        (front.plans().len() > 10).then_some(())
    });
    sweep.signal("INT");
    sweep.wait().exits(4).says("--resume");
}

#[test]
fn a_resumed_sweep_keeps_its_concurrency_target_keys_and_junit_file() {
    let (home, front) = (home("sweep-options"), Front::start(Duration::from_millis(3)));
    interrupted(&home, &front);
    assert_eq!(front.counts.lock().unwrap().in_flight_max, 1);
    std::fs::remove_file(home.file("files/junit.xml")).unwrap();
    // in another folder, and without any option
    home.run(&["sweep", "--resume", "last"]).exits(0).says("128 of 128");
    assert_eq!(front.counts.lock().unwrap().in_flight_max, 1, "-c 1 of the first part holds");
    assert!(std::fs::read_to_string(home.file("files/junit.xml")).unwrap().contains("temporal"));
}

#[test]
fn concurrency_and_junit_file_may_be_replaced() {
    let (home, front) = (home("sweep-replaced"), Front::start(Duration::from_millis(20)));
    interrupted(&home, &front);
    std::fs::remove_file(home.file("files/junit.xml")).unwrap();
    home.run(&["sweep", "--resume", "last", "-c", "8", "--junit", "mine.xml"]).exits(0);
    assert_eq!(front.counts.lock().unwrap().in_flight_max, 8);
    assert!(home.file("mine.xml").exists() && !home.file("files/junit.xml").exists());
}

#[test]
fn every_other_option_is_refused_beside_resume() {
    let home = Home::new("sweep-refused");
    for options in [
        &["http://127.0.0.1:1/"][..],
        &["-s", "temporal"],
        &["-k", "reset"],
        &["-X", "POST"],
        &["-H", "a: b"],
        &["-d", "x"],
        &["--proto", "x.proto"],
        &["--before", "GET http://127.0.0.1:1/"],
        &["--timeout-ms", "5"],
        &["--bridge"],
        &["--expect-status", "200"],
        &["--expect-body", "x"],
        &["--expect-json", "$.a=1"],
        &["--max-latency-ms", "5"],
        &["--after", "GET /cart", "--expect-json", "$.size=0"],
        &["--expect-call", "at most 1 payment/Charge"],
        &["--database", "x.db", "--expect-sql", "SELECT 1 => 1"],
        &["--check", "true"],
        &["--confirm-real"],
    ] {
        home.run(&[&["sweep", "--resume", "last"], options].concat()).exits(2).says("cannot be used with");
    }
    let help = home.run(&["sweep", "--help"]).exits(0).out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(help.contains("Only -c, --junit, -t and --trust may be given again"), "{help}");
}

/// The requests without faults carried an id of their own, which was no run.
#[test]
fn every_request_of_a_sweep_carries_the_id_of_its_run() {
    let (home, front) = (home("sweep-id"), Front::start(Duration::ZERO));
    let options = ["sweep", &front.url, "-s", "services", "--trust", "files/trust", "--json"];
    let json = home.run(&options).exits(0).json();
    let run: model::RunId = serde_json::from_value(json["run"].clone()).unwrap();
    let runs: Vec<[u8; 16]> = front.counts.lock().unwrap().runs.iter().copied().collect();
    assert_eq!(runs, [*run.0.as_bytes()]);
}

#[test]
fn the_default_concurrency_in_the_help_is_the_one_of_the_spec() {
    let home = Home::new("sweep-default");
    let help = home.run(&["sweep", "--help"]).exits(0).out.split_whitespace().collect::<Vec<_>>().join(" ");
    let schema = home.run(&["schema", "sweep"]).exits(0).json();
    let default = schema["properties"]["concurrency"]["default"].as_u64().unwrap();
    assert!(help.contains(&format!("Requests in flight at once, in every space [default: {default}]")), "{help}");
}

/// Guided exploration once sent one request after the other: with a delay of 200 ms it ran 1 or 2 cases per second.
#[test]
fn cases_that_only_wait_run_concurrently_in_every_space() {
    for space in ["guided", "temporal", "crash-points", "services"] {
        let (home, front) = (home("sweep-waits"), Front::start(Duration::ZERO));
        let options = ["-s", space, "-k", "delay 200ms", "-c", "16", "--trust", "files/trust", "--json"];
        let begin = Instant::now();
        let json = home.run(&[&["sweep", &front.url][..], &options].concat()).exits(0).json();
        let stored = home.file(&format!(".faultloom/runs/{}/cases.jsonl", json["run"].as_str().unwrap()));
        let text = std::fs::read_to_string(stored).unwrap();
        let latencies = text.lines().map(|line| serde_json::from_str::<model::sweep::Case>(line).unwrap().latency_us);
        let (cases, waited) = latencies.fold((0, 0.0), |(n, sum), us| (n + 1, sum + us as f64 / 1e6));
        let seconds = json["sweep"]["spaces"][0]["seconds"].as_f64().unwrap();
        let all = begin.elapsed().as_secs_f64();
        println!("{space}: {cases} cases that waited {waited:.1} s took {seconds:.2} s, {all:.2} s with the start");
        let at_once = front.counts.lock().unwrap().in_flight_max;
        assert!(at_once >= cases.min(16) / 2, "{at_once} of 16 requests at once");
        assert!(seconds < waited / 2.5, "{space}: {cases} cases that waited {waited} s took {seconds} s");
    }
}

/// The message once suggested `--resume`, which failed in the same way, and an unfinished run was left.
#[test]
fn a_space_that_is_too_large_is_refused_and_leaves_nothing_behind() {
    let home = home("sweep-large");
    let calls = (0..25).map(|i| (format!("s{i}"), "Get".to_owned())).collect();
    let front = Front::with_calls(Duration::ZERO, calls);
    // services is small enough, so it would run first
    let options = ["-s", "services", "-s", "temporal", "--trust", "files/trust"];
    for spaces in [&options[2..], &options[..]] {
        let ran = home.run(&[&["sweep", &front.url][..], spaces].concat()).exits(2).says("2^25 cases");
        assert!(ran.err.contains("next: use --space guided") && !ran.err.contains("resume"), "{}", ran.err);
    }
    assert_eq!(home.run(&["runs", "--json"]).exits(0).json(), serde_json::json!([]));
    home.run(&["runs", "--clean"]).exits(0).says("0 orphaned folders removed");
    assert_eq!(front.plans().keys().collect::<Vec<_>>(), [""], "only the request without faults was sent");
}

/// U+202E reverses the text after it; U+200B is invisible.
#[test]
fn names_that_deceive_are_escaped_everywhere() {
    let home = home("sweep-names");
    let calls = vec![("ads\u{202e}x".to_owned(), "Get\u{202e}\u{200b}\u{1b}[31m".to_owned())];
    let front = Front::with_calls(Duration::ZERO, calls);
    let sweep =
        ["sweep", &front.url, "-s", "guided", "-s", "services", "--trust", "files/trust", "--junit", "junit.xml"];
    let hidden = |text: &str| text.chars().any(|c| model::is_deceptive(c) && c != '\n' && c != '\t');
    let record = ["record", &front.url, "--trust", "files/trust"];
    let page = |ran: &crate::support::Completed| std::fs::read_to_string(home.file(ran.out.trim())).unwrap();
    for arguments in [&sweep[..], &["show"], &["show", "--json"], &["runs"], &record, &["show", "--all"]] {
        let ran = home.run(arguments).exits(0);
        assert!(!hidden(&ran.out) && !hidden(&ran.err), "{arguments:?}: {:?} {:?}", ran.out, ran.err);
        if arguments[0] != "runs" {
            assert!(ran.out.contains("202e") || arguments[0] == "sweep", "{arguments:?}: {}", ran.out);
        }
        let report = home.run(&["report"]).exits(0);
        assert!(!hidden(&page(&report)) && page(&report).contains("202e"));
    }
    assert!(!hidden(&std::fs::read_to_string(home.file("junit.xml")).unwrap()));
    // the exact names are in the run
    let json = home.run(&["show", "--json"]).exits(0).json();
    assert_eq!(json["traces"][0]["entry"]["scope"]["calls"][0]["callee"], "ads\u{202e}x");
    let ran = home.run(&["record", &front.url, "--trust", "files/trust", "-f", "ads\u{202e}y unavailable"]);
    assert!(!ran.status.success() && !hidden(&ran.err) && ran.err.contains("202e"), "{}", ran.err);
}
