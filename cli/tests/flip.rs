//! `faultloom flip` with its real engine: campaigns, replays, interruptions, disturbances, refusals.

use crate::support::{Completed, Home, skipped, wait_for, words};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

/// Prints forty sums over a table, without any check.
pub const SUMS: &str = r#"
#include <stdio.h>
static unsigned table[64];
static unsigned mix(unsigned x) { for (int i = 0; i < 20; i++) x = (x * 1103515245u + 12345u) ^ (x >> 7); return x; }
int main(void) {
    for (int i = 0; i < 64; i++) table[i] = mix(i);
    for (int i = 0; i < 40; i++) {
        unsigned sum = 0;
        for (int k = 0; k < 64; k++) sum += table[(k + i) & 63] * (k + 1);
        printf("%d %08x\n", i, sum);
        fflush(stdout);
    }
    return 0;
}
"#;

/// The same with two tables; it exits with status 86 if they differ.
const TWICE: &str = r#"
#include <stdio.h>
#include <unistd.h>
static unsigned one[64], two[64];
static unsigned mix(unsigned x) { for (int i = 0; i < 20; i++) x = (x * 1103515245u + 12345u) ^ (x >> 7); return x; }
int main(void) {
    for (int i = 0; i < 64; i++) one[i] = mix(i);
    for (int i = 0; i < 64; i++) two[i] = mix(i);
    for (int i = 0; i < 40; i++) {
        unsigned a = 0, b = 0;
        for (int k = 0; k < 64; k++) a += one[(k + i) & 63] * (k + 1);
        for (int k = 63; k >= 0; k--) b += two[(k + i) & 63] * (k + 1);
        if (a != b) { fprintf(stderr, "hardening: mismatch\n"); _exit(86); }
        printf("%d %08x\n", i, a);
        fflush(stdout);
    }
    return 0;
}
"#;

fn compiled(home: &Home, name: &str, source: &str, options: &[&str]) -> PathBuf {
    let file = home.write(&format!("{name}.c"), source);
    let to = home.file(name);
    let made = Command::new("cc").args(["-O1", "-g", "-o"]).arg(&to).arg(&file).args(options).status();
    assert!(made.expect("a C compiler").success());
    to
}

/// A folder with the program `sums`. None, with a counted skip, if programs cannot be contained here.
fn home(name: &str) -> Option<Home> {
    let home = Home::new(name);
    compiled(&home, "sums", SUMS, &[]);
    home.can_contain("./sums").then_some(home)
}

pub fn campaign(ran: &Completed) -> Value {
    ran.json()["campaign"].clone()
}

pub fn number(value: &Value, path: &str) -> u64 {
    value.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("{path} of {value}"))
}

/// Outcomes by id, from the log.
fn outcomes(home: &Home, run: &str) -> BTreeMap<u64, String> {
    let text = std::fs::read_to_string(log(home, run)).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut outcomes = BTreeMap::new();
    for line in lines {
        let again = outcomes.insert(number(&line, "/id"), line["outcome"].to_string());
        assert_eq!(again, None, "injection {} was run twice", line["id"]);
    }
    outcomes
}

/// Injections whose CPU time is near the limit of a hang (100 ms): a loop of 2^26 iterations may end before or after
/// it.
fn nearly_hung(home: &Home, run: &str) -> Vec<u64> {
    let text = std::fs::read_to_string(log(home, run)).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| number(line, "/effect/cpu_us") > 50_000).map(|line| number(&line, "/id")).collect()
}

fn log(home: &Home, run: &str) -> PathBuf {
    home.file(&format!(".faultloom/runs/{run}/injections.jsonl"))
}

#[test]
fn every_planned_flip_is_in_the_tables_and_every_verb_supports_the_run() {
    let Some(home) = home("flip") else { return };
    let ran = home.run(&["flip", "--json", "-n", "30", "--controls", "10", "--", "./sums"]).exits(1);
    let campaign = campaign(&ran);
    let variant = &campaign["variants"][0];
    let tally: u64 = ["none", "undetected", "hardening", "otherwise", "inactive", "unjudged"]
        .iter()
        .map(|key| number(variant, &format!("/tally/{key}")))
        .sum();
    assert_eq!((tally, number(variant, "/planned")), (210, 210));
    assert_eq!(number(variant, "/missing"), 0);
    assert_eq!((number(variant, "/controls/run"), number(variant, "/controls/deviating")), (10, 0));
    assert_eq!(number(variant, "/replies"), 40);
    assert!(number(variant, "/tally/undetected") > 5 && number(variant, "/tally/otherwise") > 5, "{variant}");
    let story = &variant["stories"][0];
    assert!(story["deviation"]["golden"] != story["deviation"]["seen"], "{story}");
    assert!(story["effect"]["hit"].as_str().unwrap().contains("->"), "{story}");
    every_line_is_written_at_once(&home, &ran, variant);
    home.run(&["runs"]).exits(0).says("210 flips");
    home.run(&["show"]).exits(0).says("of these undetected").says("sums").says("golden");
    let page = home.run(&["report"]).exits(0).out;
    let page = std::fs::read_to_string(home.file(page.trim())).unwrap();
    assert!(page.contains("flip replay") && page.contains("sums.c:"), "undetected ones with their source line");
    home.run(&["export"]).exits(2).says("no trace");
}

/// So the position of the flip in the golden run determines how many lines were written before it.
fn every_line_is_written_at_once(home: &Home, ran: &Completed, variant: &Value) {
    let run = ran.json()["run"].as_str().unwrap().to_owned();
    let golden = std::fs::read_to_string(home.file(&format!(".faultloom/runs/{run}/golden-0.json"))).unwrap();
    let golden: Value = serde_json::from_str(&golden).unwrap();
    let replies: Vec<u64> = golden["profile"]["replies"].as_array().unwrap().iter().filter_map(Value::as_u64).collect();
    assert_eq!(replies.len(), 40);
    let mut known = BTreeMap::new();
    for story in variant["stories"].as_array().unwrap() {
        let position = number(story, "/injection/position");
        let before = replies.iter().filter(|at| **at <= position).count() as u64;
        let since = number(story, "/deviation/replies_since");
        assert_eq!(number(story, "/deviation/reply"), before + since, "{story}");
        *known.entry(since > 0).or_insert(0) += 1;
    }
    assert_eq!(known.len(), 2, "some show at once, others later: {known:?}");
    let latency = variant["latency"].as_array().unwrap();
    let undetected = latency.iter().filter(|l| l["undetected"] == true).map(|l| number(l, "/errors")).sum::<u64>();
    assert_eq!(undetected, number(variant, "/tally/undetected"));
}

#[test]
fn the_same_seed_gives_the_same_outcomes_and_another_seed_others() {
    let Some(home) = home("flip-seed") else { return };
    let args = ["flip", "-q", "-n", "20", "--", "./sums"];
    home.run(&args).exits(1);
    home.run(&args).exits(1);
    let runs = home.run(&["runs", "--json"]).json();
    let [second, first] = [0, 1].map(|i| runs[i]["id"].as_str().unwrap().to_owned());
    home.run(&["diff", &first, &second]).exits(0).says("0 different, 160 the same, injection by injection");
    assert_eq!(outcomes(&home, &first), outcomes(&home, &second));
    let other = home.run(&["flip", "--json", "-n", "20", "--seed", "2", "--", "./sums"]).exits(1);
    assert_ne!(outcomes(&home, other.json()["run"].as_str().unwrap()), outcomes(&home, &first));
    home.run(&["diff", &first, "last"]).says("rows differ beyond their intervals");
}

#[test]
fn an_injection_has_the_same_outcome_in_a_fresh_process() {
    let Some(home) = home("flip-replay") else { return };
    let ran = home.run(&["flip", "--json", "-n", "3", "--", "./sums"]);
    assert_eq!(number(&campaign(&ran), "/variants/0/planned"), 21);
    for id in 0..21 {
        let again = home.run(&["flip", "replay", "--json", &format!("last:{id}")]).exits(0).json();
        assert_eq!(again["same"], true, "{again}");
        assert_eq!(again["before"]["injection"], again["again"]["injection"]);
        assert_eq!(again["before"]["effect"]["hit"], again["again"]["effect"]["hit"]);
    }
    home.run(&["flip", "replay", "last:2"]).exits(0).says("the same outcome as in the campaign");
    home.run(&["flip", "replay", "last:99"]).exits(2).says("no injection 99");
    home.run(&["flip", "replay", "last:sums:2"]).exits(0);
    home.run(&["flip", "replay", "last:other:2"]).exits(2).says("it has: sums");
}

/// The command after `next:`, as a user copies it.
fn next_command(ran: &Completed) -> String {
    ran.out.split("next: ").nth(1).unwrap_or_else(|| panic!("no next command: {}", ran.out)).trim().to_owned()
}

#[test]
fn the_next_command_can_be_run_as_it_is_printed() {
    let Some(home) = home("flip-next") else { return };
    for before in [true, false] {
        let (global, rest) = (["--home", "a store"], ["-n", "3", "--", "./sums"]);
        let ran = match before {
            true => home.run(&[&global[..], &["flip"], &rest].concat()),
            false => home.run(&[&["flip"], &global[..], &rest].concat()),
        };
        let next = next_command(&ran);
        assert!(next.contains("--home 'a store'"), "{next}");
        let words = words(&next);
        home.run(&words.iter().skip(1).map(String::as_str).collect::<Vec<_>>()).exits(0);
    }
    // the same part of a verb with the option at each place
    for words in [
        ["--home", "a store", "flip", "replay", "last:1"],
        ["flip", "--home", "a store", "replay", "last:1"],
        ["flip", "replay", "--home", "a store", "last:1"],
    ] {
        home.run(&words).exits(0);
    }
    home.run(&["flip", "--seed", "3", "replay", "last:1"]).exits(2).says("cannot be used with");
}

/// With a breakpoint per block, its first flip is a minute away.
const LONG: &str = r#"
#include <stdio.h>
int main(void) {
    volatile unsigned long sum = 0;
    for (unsigned long n = 0; n < 3000000; n++) sum += n ^ sum >> 3;
    printf("%lu\n", sum);
    return 0;
}
"#;

#[test]
fn progress_is_shown_before_the_first_flip_and_an_early_end_keeps_nothing() {
    let Some(home) = home("flip-early") else { return };
    compiled(&home, "long", LONG, &[]);
    let runs = home.run(&["runs", "--json"]).json();
    let command = home.start(&["flip", "--stepper", "block", "--", "./long"]);
    // standard error is a file or a pipe here: a line every few seconds
    wait_for("progress", || command.err_so_far().contains("of the reference run").then_some(()));
    command.signal("INT");
    let stopped = command.wait().exits(4).says("stopped before its first flip").says("nothing was stored");
    assert!(stopped.err.contains("stopping (Ctrl-C") && !stopped.err.contains("is stored"), "{}", stopped.err);
    assert_eq!(home.run(&["runs", "--json"]).json(), runs, "it is no run");
}

#[test]
fn output_that_is_not_text_points_to_a_judge() {
    let Some(home) = home("flip-binary") else { return };
    compiled(
        &home,
        "binary",
        r#"#include <unistd.h>
int main(void) { return write(1, "\x1f\x8b\0\xff", 4) != 4; }"#,
        &[],
    );
    home.run(&["flip", "-n", "2", "--", "./binary"]).says("--judge COMMAND");
    assert!(!home.run(&["flip", "-n", "2", "--judge", "echo otherwise", "--", "./binary"]).out.contains("--judge"));
}

#[test]
fn gdb_finds_the_process_at_the_flip() {
    let Some(home) = home("flip-gdb") else { return };
    if Command::new("gdb").arg("--version").output().is_err() {
        return skipped("gdb is not installed");
    }
    let campaign = home.run(&["flip", "--json", "-n", "2", "--types", "RREG", "--", "./sums"]);
    assert_eq!(number(&self::campaign(&campaign), "/variants/0/planned"), 2);
    let usual = home.run(&["flip", "replay", "--json", "last:1"]).json();
    let ip = format!("=> {:#x}", number(&usual, "/again/injection/ip"));
    let before = home.run(&["flip", "replay", "last:1", "--gdb", "--before"]).exits(0);
    assert!(before.out.contains("right before RREG") && before.out.contains(&ip), "{}", before.out);
    let hit = usual["again"]["effect"]["hit"].as_str().unwrap();
    let after = home.run(&["flip", "replay", "last:1", "--gdb"]).exits(0);
    assert!(after.out.contains("right after RREG") && after.out.contains(hit), "{}", after.out);
    assert!(after.out.contains("from here") && after.out.contains("ENOSYS"), "{}", after.out);
    home.run(&["flip", "replay", "last:1", "--before"]).exits(2);
}

#[test]
fn a_stopped_or_killed_campaign_is_resumed() {
    let Some(home) = home("flip-resume") else { return };
    let args = ["flip", "-q", "-n", "120", "--", "./sums"];
    home.run(&args).exits(1);
    let first = home.run(&["runs", "--json"]).json()[0]["id"].as_str().unwrap().to_owned();
    for signal in ["INT", "KILL"] {
        let command = home.start(&args);
        let run = wait_for("a run", || {
            let runs = home.run(&["runs", "--json"]).json();
            runs[0]["id"].as_str().filter(|_| runs[0]["verdict"].is_null()).map(str::to_owned)
        });
        wait_for("some injections", || {
            std::fs::read_to_string(log(&home, &run)).ok().filter(|text| text.lines().count() >= 40)
        });
        command.signal(signal);
        let ended = command.wait();
        if signal == "INT" {
            ended.exits(4).says(&format!("--resume {}", &run[run.len() - 8..]));
        }
        home.assert_nothing_runs();
        assert!(outcomes_so_far(&home, &run) < 860, "it was stopped too late to show anything");
        home.run(&["show", &run]).exits(5).says("--resume");
        let resumed = home.run(&["flip", "--json", "--resume", &run]).exits(1);
        assert_eq!(number(&campaign(&resumed), "/variants/0/missing"), 0);
        let (mut again, mut before) = (outcomes(&home, &run), outcomes(&home, &first));
        let long = nearly_hung(&home, &run);
        for id in nearly_hung(&home, &first).into_iter().filter(|id| long.contains(id)) {
            again.remove(&id);
            before.remove(&id);
        }
        assert!(again.len() > 800, "{} are left", again.len());
        assert_eq!(again, before);
        home.run(&["flip", "--resume", &run]).exits(2).says("is finished");
    }
}

fn outcomes_so_far(home: &Home, run: &str) -> usize {
    std::fs::read_to_string(log(home, run)).unwrap().lines().count()
}

/// One short answer, written at once.
const ANSWER: &str = r#"
#include <unistd.h>
static char text[16];
__attribute__((noinline)) static int handle(const char *line, int length) {
    int n = 0;
    for (unsigned rest = 7 * length + line[0]; rest != 0; rest /= 10) text[n++] = '0' + rest % 10;
    return n;
}
int main(void) {
    char line[4];
    int length = (int)read(0, line, sizeof line);
    return write(1, text, (unsigned)handle(line, length)) < 0;
}
"#;

#[test]
fn exhaustive_flips_of_one_reply_are_compared_with_the_drawn_ones() {
    let Some(home) = home("flip-every") else { return };
    compiled(&home, "answer", ANSWER, &[]);
    home.write("line", "abc");
    let args =
        ["flip", "--json", "--stdin", "line", "--reply", "0", "--handler", "handle", "--exhaustive", "-n", "100"];
    let ran = home.run(&[&args[..], &["--", "./answer"]].concat());
    assert_eq!(ran.status.code(), Some(1), "{}", ran.err);
    let all = campaign(&ran)["variants"][0]["exhaustive"].clone();
    assert_eq!(number(&all, "/classes"), number(&all, "/tried"));
    let kinds = all["kinds"].as_array().unwrap();
    assert_eq!(kinds.len(), 7);
    for kind in kinds {
        let sum: f64 = kind["exact"].as_object().unwrap().values().filter_map(Value::as_f64).sum();
        assert!((sum - 1.0).abs() < 1e-9 && kind["agrees"] == true, "{kind}");
    }
    let flips: u64 = kinds.iter().map(|kind| number(kind, "/flips")).sum();
    assert!(flips > number(&all, "/classes"), "classes save trials");
    let none = home.run(&["flip", "--stdin", "line", "--reply", "1", "--", "./answer"]);
    assert!(none.status.code() == Some(2) && none.err.contains("there is no reply 1"), "{}", none.err);
}

#[test]
fn a_program_that_changed_is_not_resumed() {
    let Some(home) = home("flip-changed") else { return };
    let command = home.start(&["flip", "-q", "-n", "400", "--", "./sums"]);
    let run = wait_for("some injections", || {
        let run = home.run(&["runs", "--json"]).json()[0].clone();
        let id = run["id"].as_str().filter(|_| run["verdict"].is_null())?.to_owned();
        std::fs::read_to_string(log(&home, &id)).ok().filter(|text| text.lines().count() > 3).map(|_| id)
    });
    command.signal("INT");
    command.wait().exits(4);
    compiled(&home, "sums", &SUMS.replace("12345u", "54321u"), &[]);
    home.run(&["flip", "--resume", &run]).exits(5).says("has changed since the campaign began");
}

#[test]
fn hardening_has_a_column_next_to_the_stock_program() {
    let Some(home) = home("flip-hardened") else { return };
    compiled(&home, "twice", TWICE, &[]);
    for how in [["--abort-status", "86"], ["--abort-marker", "hardening: mismatch"]] {
        let args = ["flip", "--json", "-n", "60", "--types", "WREG,WVAL,RREG,RVAL", "--variant", "twice=./twice"];
        let ran = home.run(&[&args[..], &how, &["--", "./sums"]].concat()).exits(1);
        let campaign = campaign(&ran);
        let of = |variant: usize, key: &str| number(&campaign, &format!("/variants/{variant}/tally/{key}"));
        assert_eq!((of(0, "hardening"), number(&campaign, "/variants/1/planned")), (0, 240));
        assert!(of(1, "hardening") > 10, "{campaign}");
        assert!(of(1, "undetected") < of(0, "undetected"), "{campaign}");
    }
    home.run(&["show"]).exits(0).says("hardening").says("twice");
    home.run(&["flip", "replay", "last:3"]).exits(2).says("RUN:VARIANT:ID");
    home.run(&["flip", "replay", "last:twice:3"]).exits(0);
}

#[test]
fn a_judge_command_decides_and_a_failing_one_makes_the_verdict_unknown() {
    let Some(home) = home("flip-judge") else { return };
    let args = ["flip", "--json", "-n", "10", "--types", "RVAL", "--judge"];
    let lenient = home.run(&[&args[..], &["echo none", "--", "./sums"]].concat()).exits(0);
    assert_eq!(number(&campaign(&lenient), "/variants/0/tally/none"), 10);
    let broken = home.run(&[&args[..], &["exit 9", "--", "./sums"]].concat()).exits(5);
    assert!(broken.json()["doubts"][0].as_str().unwrap().contains("could not be judged"));
}

#[test]
fn a_running_server_is_judged_by_an_input_trace() {
    let home = Home::new("flip-server");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap().to_string();
    let state = home.write("state", "good");
    // answers each line with the content of a file, which the disturbance changes
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut lines = std::io::BufReader::new(stream.try_clone().unwrap());
            let mut line = String::new();
            while std::io::BufRead::read_line(&mut lines, &mut line).is_ok_and(|n| n > 0) {
                let said = std::fs::read_to_string(&state).unwrap_or_default();
                let _ = std::io::Write::write_all(&mut &stream, format!("{} {said}\n", line.trim()).as_bytes());
                line.clear();
            }
        }
    });
    home.write(
        "trace",
        "replay 1\nconnect 0 tcp 0\nconnect 1 tcp 0\nsend 0 2\na\n\nsend 1 4\nb\nc\n\nclose 0\nclose 1\n",
    );
    let state = home.file("state").display().to_string();
    let disturbance =
        format!("trap 'printf good > {state}; exit' TERM; printf BAD! > {state}; while :; do sleep 0.05; done");
    let args = ["flip", "--json", "--runs", "200", "--server", &at, "--replay", "trace", "--external", &disturbance];
    let campaign = campaign(&home.run(&args).exits(1));
    let of = |path: &str| number(&campaign, &format!("/variants/0{path}"));
    assert_eq!((of("/replies"), of("/controls/run"), of("/controls/deviating")), (3, 3, 0));
    assert!(of("/tally/undetected") > 0 && of("/tally/undetected") + of("/tally/none") + of("/tally/otherwise") == 200);
    home.run(&["flip", "-q", "--server", "127.0.0.1:1", "--replay", "trace", "--external", "true"])
        .exits(3)
        .says("no server accepts connections at 127.0.0.1:1");
}

#[test]
fn unsuitable_programs_are_refused_before_anything_runs() {
    let Some(home) = home("flip-refused") else { return };
    home.run(&["runs", "--delete", home.run(&["runs", "--json"]).json()[0]["id"].as_str().unwrap()]).exits(0);
    home.write("text", "no program");
    compiled(
        &home,
        "chance",
        r#"#include <stdio.h>
#include <unistd.h>
int main(void) { char id[16] = {0}; return readlink("/proc/self", id, 15) < 0 || puts(id) < 0; }"#,
        &[],
    );
    for (words, code, why) in [
        (vec![], 2, "no program to flip bits in"),
        (vec!["--", "./no-such"], 2, "there is no program './no-such'"),
        (vec!["--", "./text"], 2, "there is no program './text'"),
        (vec!["--", "./chance"], 3, "write different output"),
        (vec!["--protocol", "dns", "--", "./sums"], 2, "choose the --protocol"),
        (vec!["--symbol", "no_such_function", "--", "./sums"], 2, "no function is called no_such_function"),
        (vec!["--library", "no_such_library", "--", "./sums"], 2, "site filter excludes"),
        (vec!["--max-instructions", "1000", "--", "./sums"], 3, "instructions"),
    ] {
        let ran = home.run(&[&["flip", "-q"], &words[..]].concat());
        assert!(ran.err.contains(why), "{words:?}: {}", ran.err);
        ran.exits(code);
    }
    assert_eq!(home.run(&["runs", "--json"]).json(), serde_json::json!([]), "what was refused is no run");
}

/// Such a program repeats its failure exactly, so every flip would have no effect.
#[test]
fn a_program_that_fails_at_once_is_refused_with_the_file_it_misses() {
    let Some(home) = home("flip-fails") else { return };
    home.write("words", "one\ntwo\n");
    home.write("a.lua", "for i = 1, 9 do print(i * 6) end\n");
    let runs = home.run(&["runs", "--json"]).json();
    let flip =
        |options: &[&str], program: &[&str]| home.run(&[&["flip", "-n", "3"], options, &["--"], program].concat());
    let gzip = flip(&[], &["gzip", "-c", "words"]).exits(3);
    for words in ["no output", "No such file", "--file words", "the argument words names a file here"] {
        assert!(gzip.err.contains(words), "{words:?} is not in: {}", gzip.err);
    }
    flip(&[], &["cat", "no-such-file"]).exits(3).says("writes to standard error").says("No such file");
    flip(&["--file", "words"], &["cat", "other"]).exits(3).says("no output");
    // it writes a count, and its status is 1 if that is 0
    flip(&["--file", "words"], &["grep", "-c", "three", "words"]).exits(3).says("status 1").says("--expect-exit 1");
    assert_eq!(home.run(&["runs", "--json"]).json(), runs, "what was refused is no run");
    let expected = flip(&["--json", "--expect-exit", "1", "--file", "words"], &["grep", "-c", "three", "words"]);
    assert_eq!(number(&campaign(&expected), "/variants/0/controls/deviating"), 0, "{}", expected.err);
    if !std::path::Path::new("/usr/bin/lua5.4").exists() {
        return skipped("lua5.4 is not installed");
    }
    flip(&[], &["lua5.4", "a.lua"]).exits(3).says("cannot open a.lua").says("--file a.lua");
    flip(&[], &["lua5.4", "no-such.lua"]).exits(3).says("cannot open no-such.lua");
    let found = campaign(&flip(&["--json", "--file", "a.lua"], &["lua5.4", "a.lua"]));
    let of = |key: &str| number(&found, &format!("/variants/0/controls/{key}"));
    assert_eq!((of("run"), of("deviating")), (20, 0));
}

#[test]
fn copied_files_have_the_same_times_in_every_run() {
    let Some(home) = home("flip-times") else { return };
    home.write("s.txt", &"a line to compress\n".repeat(20));
    compiled(
        &home,
        "times",
        r#"#include <stdio.h>
#include <sys/stat.h>
int main(void) {
    struct stat of;
    return stat("s.txt", &of) < 0 || printf("%ld %ld\n", (long)of.st_mtime, (long)of.st_atime) < 0;
}"#,
        &[],
    );
    let ran = home.run(&["flip", "--json", "-n", "1", "--types", "CF", "--file", "s.txt", "--", "./times"]);
    let run = ran.json()["run"].as_str().unwrap().to_owned();
    let golden = std::fs::read_to_string(home.file(&format!(".faultloom/runs/{run}/golden-0.json"))).unwrap();
    // base64 of "1700000000 1700000000\n"
    assert!(golden.contains("MTcwMDAwMDAwMCAxNzAwMDAwMDAwCg=="), "{golden}");
    // the header of gzip has the file's time, also where it replaces the file
    for command in [["gzip", "-c", "s.txt"], ["gzip", "-9", "s.txt"]] {
        let ran = home
            .run(&[&["flip", "--json", "-n", "1", "--types", "CF", "--file", "s.txt", "--"], &command[..]].concat());
        let campaign = campaign(&ran);
        let of = |key: &str| number(&campaign, &format!("/variants/0/controls/{key}"));
        assert_eq!((of("run"), of("deviating")), (20, 0), "{command:?}");
    }
}

#[test]
fn memcached_is_disturbed_under_an_input_trace() {
    let Some(home) = home("flip-memcached") else { return };
    if !std::path::Path::new("/usr/bin/memcached").exists() {
        return skipped("memcached is not installed");
    }
    let mut trace = b"replay 1\nconnect 0 tcp 11211\nconnect 1 tcp 11211\n".to_vec();
    for i in 0..60u32 {
        let value = format!("value-{:0width$}", i * 7919, width = (i as usize * 5) % 30 + 1);
        let key = i % 7;
        let request = match i % 3 {
            0 => format!("set k{key} 0 0 {}\r\n{value}\r\n", value.len()),
            _ => format!("get k{key}\r\n"),
        };
        trace.extend(format!("send {} {}\n{request}\n", i % 2, request.len()).bytes());
    }
    trace.extend(b"close 0\nclose 1\n");
    std::fs::write(home.file("trace"), trace).unwrap();
    let server = ["/usr/bin/memcached", "-u", "nobody", "-t", "1"];
    let args = ["flip", "--json", "-n", "10", "--protocol", "memcached", "--replay", "trace", "--"];
    let ran = home.run(&[&args[..], &server].concat());
    assert!(matches!(ran.status.code(), Some(0 | 1)), "{}", ran.err);
    let campaign = campaign(&ran);
    let of = |path: &str| number(&campaign, &format!("/variants/0{path}"));
    assert_eq!((of("/connections"), of("/replies"), of("/planned"), of("/missing")), (2, 60, 70, 0));
    assert_eq!(of("/controls/deviating"), 0);
    assert!(of("/tally/otherwise") > 10, "{campaign}");
}
