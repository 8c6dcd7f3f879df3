//! `sweep` against the shop with the paper's bugs: counts, the two bugs, every kind of fault, files.

use crate::support::{Completed, Shop, words};
use serde_json::Value;

fn sweep(shop: &Shop, more: &[&str]) -> Completed {
    shop.run(&[&["sweep", "--json"][..], more].concat())
}

fn space<'a>(json: &'a Value, name: &str) -> &'a Value {
    let spaces = json["sweep"]["spaces"].as_array().unwrap();
    spaces.iter().find(|s| s["name"] == name).unwrap_or_else(|| panic!("no space {name} among {}", spaces.len()))
}

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("{key} in {value}"))
}

fn faults(bug: &Value) -> Vec<(String, String, Vec<String>)> {
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let after = |f: &Value| f["after"].as_array().unwrap().iter().map(|a| text(&a["call"])).collect();
    let mut all: Vec<_> =
        bug["faults"].as_array().unwrap().iter().map(|f| (text(&f["callee"]), text(&f["call"]), after(f))).collect();
    all.sort();
    all
}

/// The paper's numbers (3MileBeach §5.3), each bug once, and the printed command that repeats it.
#[test]
fn all_spaces_have_the_papers_counts_and_each_bug_is_listed_once() {
    let Some(shop) = Shop::shared() else { return };
    let spaces = ["-s", "services", "-s", "all-services", "-s", "temporal", "-s", "crash-points", "-s", "guided"];
    let json = sweep(&shop, &spaces).exits(1).json();
    let count = |name: &str| (number(space(&json, name), "cases"), number(space(&json, name), "failures"));
    assert_eq!(count("services"), (16, 4));
    assert_eq!(count("all-services"), (512, 128));
    assert_eq!(count("temporal"), (16_384, 7_164));
    assert_eq!(count("crash-points"), (14, 10));
    for s in json["sweep"]["spaces"].as_array().unwrap() {
        assert_eq!(number(s, "unknown"), 0, "{}", s["name"]);
        assert_eq!(number(s, "passes") + number(s, "failures"), number(s, "cases"));
    }
    let (guided, failures) = count("guided");
    assert!(guided <= 50 && failures > 0, "guided took {guided} runs");
    // 128 of 512 subsets contain ads and currency; services that the page does not call have no effect
    assert_eq!(
        number(space(&json, "all-services"), "unaffected"),
        31,
        "subsets of the five others, the empty one is no fault"
    );

    let bugs = json["sweep"]["bugs"].as_array().unwrap();
    let names: Vec<&str> = bugs.iter().map(|b| b["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["SimpleTFI", "DeepRLFI"]);
    assert_eq!(faults(&bugs[0]), [("currency".to_owned(), String::new(), vec!["GetCurrencies".to_owned()])]);
    let down = |name: &str| (name.to_owned(), String::new(), vec![]);
    assert_eq!(faults(&bugs[1]), [down("ads"), down("currency")]);
    for bug in bugs {
        assert_eq!(bug["failed"]["call"], "Convert");
        assert_eq!(bug["trace"]["entry"]["status"], 500);
        let again = words(bug["again"].as_str().unwrap());
        let arguments: Vec<&str> = again[1..].iter().map(String::as_str).collect();
        shop.run(&arguments).exits(1).says("failed: status 500");
    }
    let explained: u64 = bugs.iter().map(|b| number(b, "failing_cases")).sum();
    let failures: u64 = json["sweep"]["spaces"].as_array().unwrap().iter().map(|s| number(s, "failures")).sum();
    assert_eq!(explained, failures, "every failure belongs to a bug");
    assert!(std::path::Path::new(json["report"].as_str().unwrap()).is_relative() || json["report"].is_string());
}

#[test]
fn a_sweep_is_printed_and_stored() {
    let Some(shop) = Shop::shared() else { return };
    let junit = shop.home.file("sweep.xml");
    let ran = shop
        .run(&["sweep", "-s", "services", "-s", "crash-points", "--junit", &junit.display().to_string()])
        .exits(1)
        .says("16 of 16")
        .says("4 failures")
        .says("AVOIDABLE FAILURE")
        .says("Kind: time of check to time of use, SimpleTFI.")
        .says("again: ");
    let run = ran.out.split("run ").last().unwrap().split_whitespace().next().unwrap().to_owned();
    shop.run(&["show", &run]).exits(0).says("DeepRLFI").says("passes if: status below 500");
    let json = shop.run(&["show", &run, "--json"]).exits(0).json();
    assert_eq!(json["run"]["verdict"], "fail");
    assert_eq!(json["run"]["summary"]["cases"], 30);
    shop.run(&["runs", "-n", "1000"]).exits(0).says("30 cases, 14 failed, 2 bugs");
    let page = shop.run(&["report", &run]).exits(0).out;
    assert!(std::fs::read_to_string(shop.home.file(page.trim())).unwrap().contains("SimpleTFI"));
    shop.run(&["diff", &run, &run]).exits(0).says("0 different");
    shop.run(&["sweep", "--resume", &run]).exits(2).says(&format!("run {run} is finished"));

    let suites = junit_suites(&std::fs::read_to_string(&junit).unwrap());
    let suite = |name: &str, tests, failures| (name.to_owned(), tests, failures, 0);
    assert_eq!(suites, [suite("bugs", 2, 2), suite("services", 1, 0), suite("crash-points", 1, 0)], "one test per bug");
}

/// Parses a JUnit file with Python: name, tests, failures and errors of each suite, which must match its content.
fn junit_suites(text: &str) -> Vec<(String, u64, u64, u64)> {
    let script = "
import sys, json, xml.etree.ElementTree as E
out = []
for s in E.fromstring(sys.stdin.buffer.read()).iter('testsuite'):
    inside = [len(s.findall('testcase')), len(s.findall('testcase/failure')), len(s.findall('testcase/error'))]
    assert inside == [int(s.get(k)) for k in ('tests', 'failures', 'errors')], s.attrib
    names = [c.get('name') for c in s.findall('testcase')]
    assert len(set(names)) == len(names), 'names are not unique'
    out.append([s.get('name'), *inside])
print(json.dumps(out))";
    use std::io::Write;
    let mut python = std::process::Command::new("python3")
        .args(["-c", script])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    python.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = python.wait_with_output().unwrap();
    assert!(output.status.success(), "the JUnit file is not right:\n{}", &text[..text.len().min(2000)]);
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn every_kind_of_fault_can_be_swept() {
    let Some(shop) = Shop::shared() else { return };
    // every fault that fails a call fails the page as an outage does
    for kind in ["status 13", "reset", "deadline", "lost-reply"] {
        let json = sweep(&shop, &["-s", "services", "-k", kind]).exits(1).json();
        assert_eq!(number(space(&json, &format!("services {kind}")), "cases"), 16, "{kind}");
        assert_eq!(number(space(&json, &format!("services {kind}")), "failures"), 4, "{kind}");
        assert_eq!(json["sweep"]["bugs"][0]["name"], "DeepRLFI", "{kind}");
        let again = words(json["sweep"]["bugs"][0]["again"].as_str().unwrap());
        shop.run(&again[1..].iter().map(String::as_str).collect::<Vec<_>>()).exits(1);
    }
    // a slow service is a failure only with a latency limit
    sweep(&shop, &["-s", "services", "-k", "delay 60ms"]).exits(0);
    let slow = sweep(&shop, &["-s", "crash-points", "-k", "delay 400ms", "--max-latency-ms", "2200"]).exits(1).json();
    let slow_space = space(&slow, "crash-points delay 400");
    assert_eq!(number(slow_space, "cases"), 14);
    // six or more delayed calls are too slow: the converter before its last five
    let failures = number(slow_space, "failures");
    assert!((5..=8).contains(&failures), "{failures} of 14 are slow");
    // empty and corrupt replies must not count as passes if the page fails
    for kind in ["empty-reply", "corrupt-reply"] {
        let ran = sweep(&shop, &["-s", "guided", "-k", kind]);
        assert!(matches!(ran.status.code(), Some(0 | 1)), "{kind}: {:?} {}", ran.status, ran.err);
        let json = ran.json();
        assert_eq!(number(space(&json, &format!("guided {kind}")), "unknown"), 0, "{kind}");
        assert!(number(space(&json, &format!("guided {kind}")), "cases") > 14, "{kind}");
    }
    // two kinds in one sweep
    let both = sweep(&shop, &["-s", "services", "-k", "unavailable", "-k", "status 8"]).exits(1).json();
    assert_eq!(both["sweep"]["spaces"].as_array().unwrap().len(), 2);
    shop.run(&["sweep", "-k", "explode"]).exits(2).says("'explode' is not a kind of fault");
    shop.run(&["sweep", "-s", "everything"]).exits(2).says("there is no space 'everything'").says("crash-points");
}

/// A service that hangs: the page does not answer in time, or after the calls' own deadline.
#[test]
fn a_hanging_service_is_found_with_a_short_timeout() {
    let Some(shop) = Shop::shared() else { return };
    let arguments = ["-s", "services", "-k", "hang 1500ms", "--timeout-ms", "1200", "-c", "16"];
    let json = sweep(&shop, &arguments).exits(1).json();
    let space = space(&json, "services hang 1500");
    assert_eq!((number(space, "cases"), number(space, "failures")), (16, 15));
    // without a reply the fired fault is unknown; each service alone is enough
    let bugs = json["sweep"]["bugs"].as_array().unwrap();
    assert_eq!(
        bugs.iter().map(|b| faults(b)[0].0.clone()).collect::<Vec<_>>(),
        ["currency", "catalogue", "cart", "ads"]
    );
    let again = words(bugs[0]["again"].as_str().unwrap());
    assert!(again.contains(&"--timeout-ms".to_owned()), "{again:?}");
    shop.run(&again[1..].iter().map(String::as_str).collect::<Vec<_>>()).exits(1).says("no reply within 1200 ms");
}

#[test]
fn assertions_decide_in_a_sweep_too() {
    let Some(shop) = Shop::shared() else { return };
    // a page with unconverted prices fails an expectation on its body
    let json = sweep(&shop, &[&shop.url("/api/home"), "-s", "crash-points", "--expect-json", "$.currency=EUR"])
        .exits(1)
        .json();
    assert_eq!(number(space(&json, "crash-points"), "failures"), 11);
    let ran = sweep(&shop, &[&shop.url("/api/home"), "-s", "services", "--expect-body", "nowhere in it"]).exits(5);
    assert!(
        ran.json()["error"]["what"].as_str().unwrap().contains("the request fails without any fault"),
        "{}",
        ran.out
    );
    shop.run(&["sweep", "--expect-body", "("]).exits(2).says("not a regular expression");
    shop.run(&["sweep", "--expect-status", "ok"]).exits(2).says("'ok' is not a status code");
    shop.run(&["sweep", "--expect-json", "x"]).exits(2).says("is not PATH=VALUE");
}

#[test]
fn a_grpc_request_is_swept() {
    let Some(shop) = Shop::shared() else { return };
    let proto = crate::support::repository().join("lab/shop/proto/shop.proto").display().to_string();
    let url = shop.grpc(7005, "shop.Recommendation/ListRecommendations");
    let json = sweep(&shop, &[&url, "--proto", &proto, "-d", r#"{"product_ids": ["mug-01"]}"#]).exits(1).json();
    let bug = &json["sweep"]["bugs"][0];
    assert_eq!(bug["failed"]["callee"], "catalogue");
    let again = words(bug["again"].as_str().unwrap());
    shop.run(&again[1..].iter().map(String::as_str).collect::<Vec<_>>()).exits(1);
    // a request without calls has nothing to fault
    let convert = shop.grpc(7001, "shop.Currency/GetCurrencies");
    shop.run(&["sweep", &convert]).exits(5).says("makes no call that could be faulted");
}

#[test]
fn two_sweeps_share_a_store_and_a_target() {
    let Some(shop) = Shop::shared() else { return };
    let start = || shop.home.start(&["sweep", "--json", "-s", "all-services", "-s", "guided", "-c", "64"]);
    let (one, two) = (start(), start());
    let (one, two) = (one.wait().exits(1).json(), two.wait().exits(1).json());
    assert_ne!(one["run"], two["run"]);
    for json in [&one, &two] {
        assert_eq!(number(space(json, "all-services"), "failures"), 128);
        assert_eq!(json["sweep"]["bugs"].as_array().unwrap().len(), 2);
        shop.run(&["show", json["run"].as_str().unwrap()]).exits(0);
    }
}
