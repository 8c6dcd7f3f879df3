//! The command line itself: first steps, version, completions, man pages, opening a report.

use crate::support::{Home, Started, skipped, wait_for};
use std::process::Command;

/// A trace without a service, so that there is a run.
const TRACE: &str = r#"{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"web"}}]},
"scopeSpans":[{"spans":[{"traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b174","name":"GET /","kind":2,
"startTimeUnixNano":"1","endTimeUnixNano":"2"}]}]}]}"#;

#[test]
fn without_arguments_it_shows_the_first_three_steps() {
    let home = Home::new("first-steps");
    let ran = home.run(&[]).exits(0).says(" 1  faultloom init").says(" 2  faultloom up").says(" 3  faultloom sweep");
    assert!(ran.out.contains("describe your application"), "{}", ran.out);
    home.write("target.yaml", "name: t\nservices: []\n");
    home.run(&[]).exits(0).says("target.yaml is here");
}

#[test]
fn the_long_version_says_how_it_was_built() {
    let home = Home::new("version");
    let short = home.run(&["-V"]).exits(0).out;
    assert_eq!(short, format!("faultloom {}\n", env!("CARGO_PKG_VERSION")));
    let long = home.run(&["--version"]).exits(0);
    for fact in ["commit ", "target ", "compiler rustc 1.", "profile ", "features "] {
        let fact = fact.split_once(' ').unwrap();
        let line = long.out.lines().find(|line| line.starts_with(fact.0)).unwrap_or_else(|| panic!("{}", long.out));
        assert!(line.contains(fact.1) && line.len() > "compiler ".len() + 1, "{line}");
    }
}

#[test]
fn bash_completes_verbs_and_options() {
    let home = Home::new("completions");
    let complete = |words: &str, at: usize| {
        let script = format!(
            "source <({} completions bash); COMP_WORDS=({words}); COMP_CWORD={at}; \
             _faultloom faultloom \"${{COMP_WORDS[at]}}\" \"${{COMP_WORDS[{}]}}\"; echo \"${{COMPREPLY[@]}}\"",
            env!("CARGO_BIN_EXE_faultloom"),
            at - 1
        )
        .replace("[at]", &format!("[{at}]"));
        let output = Command::new("bash").args(["-c", &script]).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    assert_eq!(complete("faultloom swe", 1), "sweep");
    assert_eq!(complete("faultloom sweep --confirm", 2), "--confirm-real");
    let all = complete("faultloom ''", 1);
    assert!(all.contains("sweep") && !all.contains("reaper"), "internal: {all}");
    for shell in ["zsh", "fish", "elvish", "powershell"] {
        let script = home.run(&["completions", shell]).exits(0).out;
        assert!(script.contains("faultloom") && script.contains("sweep"), "{shell}");
    }
    // the most similar names, none of them internal
    let misspelled = home.run(&["reapr"]).exits(2);
    assert!(!misspelled.err.contains("reaper"), "{}", misspelled.err);
    home.run(&["recrd"]).exits(2).says("'record'");
    home.run(&["completions", "tcsh"]).exits(2).says("possible values: bash");
}

#[test]
fn every_verb_has_a_man_page() {
    let home = Home::new("man");
    home.run(&["man", "--dir", "pages"]).exits(0).says("pages in pages");
    let verbs = home.run(&["help"]).exits(0).out;
    let verbs = verbs.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let verbs: Vec<&str> = verbs.filter_map(|line| line.split_whitespace().next()).filter(|v| *v != "help").collect();
    assert!(verbs.len() > 20, "{verbs:?}");
    let can_show = Command::new("man").arg("--version").output().is_ok();
    if !can_show {
        skipped("man is not installed: the pages are not rendered");
    }
    for verb in verbs {
        let path = home.file(&format!("pages/faultloom-{verb}.1"));
        let page = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{verb}: {e}"));
        assert!(page.contains(".SH NAME") && page.contains(".SH SYNOPSIS"), "{verb}");
        assert_eq!(home.run(&["man", verb]).exits(0).out, page);
        if can_show {
            let shown = Command::new("man").args(["--warnings", "-l"]).arg(&path).output().unwrap();
            let complaints = String::from_utf8_lossy(&shown.stderr);
            assert!(shown.status.success() && complaints.is_empty(), "{verb}: {complaints}");
        }
    }
    home.run(&["man", "swep"]).exits(2).says("there is no page for 'swep'").says("sweep");
}

#[test]
fn a_report_is_opened_in_the_browser() {
    let home = Home::new("open");
    let trace = home.write("trace.json", TRACE);
    home.run(&["import", &trace.display().to_string()]).exits(0);
    let browser = home.write("browser", "#!/bin/sh\nprintf '%s' \"$1\" > opened.part && mv opened.part opened\n");
    assert!(Command::new("chmod").args(["+x", &browser.display().to_string()]).status().unwrap().success());
    let mut open = home.command(&["report", "--open"]);
    let ran = Started::new({
        open.env("BROWSER", &browser);
        open
    });
    let page = ran.wait().exits(0).out.trim().to_owned();
    let opened = wait_for("the browser", || std::fs::read_to_string(home.file("opened")).ok());
    assert_eq!(opened, page);

    let mut open = home.command(&["report", "--open"]);
    open.env_remove("BROWSER").env("PATH", home.file("nothing"));
    let ran = Started::new(open).wait().exits(3).says("no browser can be started");
    assert!(ran.err.contains(&format!("open {page} yourself")), "{}", ran.err);
}
