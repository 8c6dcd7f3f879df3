//! Whole pages: hostile names, empty runs, very large runs.

use crate::{RecordingReport, SweepReport, recording_html, shop, sweep_html};
use model::sweep::{Case, Sweep};
use model::{KindName, Run, Verdict};

fn run() -> Run {
    shop::run(KindName::new("sweep"), "GET /", None)
}

fn page(sweep: &Sweep, cases: &[Case]) -> String {
    sweep_html(&SweepReport { run: &run(), sweep, cases, sockets: None })
}

/// Opening and closing tags of elements that must be closed.
fn assert_balanced(html: &str) {
    for tag in [
        "div", "span", "details", "summary", "section", "article", "table", "ul", "ol", "aside", "p", "h3", "h4",
        "svg", "a", "b", "code",
    ] {
        let open = html.matches(&format!("<{tag}>")).count() + html.matches(&format!("<{tag} ")).count();
        assert_eq!(open, html.matches(&format!("</{tag}>")).count(), "{tag}");
    }
}

#[test]
fn the_page_of_a_full_sweep_is_small_and_whole() {
    let (sweep, cases) = shop::sweep();
    assert_eq!(cases.len(), 16 + 512 + 16_384);
    let failures: Vec<u64> = sweep.spaces.iter().map(|s| s.failures).collect();
    assert_eq!(failures, [4, 128, 10_232]);
    let html = page(&sweep, &cases);
    assert!(html.len() < 1_500_000, "{}", html.len());
    assert_balanced(&html);
    for part in ["2 bugs", "SimpleTFI", "DeepRLFI", "10,364 of 16,912", "2026", "Seed", "default-src 'none'"] {
        assert!(html.contains(part), "{part}");
    }
    for outside in ["http-equiv=refresh", "src=", "<link", "<img", "<iframe", " onclick", " onerror"] {
        assert!(!html.contains(outside), "{outside}");
    }
}

#[test]
fn the_noisiest_sweep_stays_small_too() {
    let (sweep, mut cases) = shop::sweep();
    for case in &mut cases {
        let noise = (case.case + 7).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        case.verdict = [Verdict::Pass, Verdict::Fail, Verdict::Unknown][noise as usize % 3];
        case.fingerprint = noise;
        case.latency_us = noise;
        case.reason = Some(format!("reason {}", noise % 500));
    }
    let html = page(&sweep, &cases);
    assert!(html.len() < 1_500_000, "{}", html.len());
}

#[test]
fn hostile_names_stay_text() {
    const EVIL: &str = r#"</script><img src=x onerror='alert(1)'>"&<!--"#;
    let (mut sweep, mut cases) = shop::sweep();
    cases.truncate(528);
    sweep.request = EVIL.into();
    sweep.oracle = EVIL.into();
    for trace in [&mut sweep.good].into_iter().chain(sweep.bugs.iter_mut().map(|b| &mut b.trace)) {
        for name in [&mut trace.trace_id, &mut trace.entry.callee, &mut trace.entry.name] {
            *name = EVIL.into();
        }
        let scope = trace.entry.scope.as_mut().unwrap();
        (scope.service, scope.name) = (EVIL.into(), EVIL.into());
        for call in &mut scope.calls {
            for name in [&mut call.caller, &mut call.callee, &mut call.name, &mut call.peer] {
                *name = EVIL.into();
            }
        }
    }
    for bug in &mut sweep.bugs {
        for name in [
            &mut bug.name,
            &mut bug.title,
            &mut bug.mistake,
            &mut bug.again,
            &mut bug.failed.caller,
            &mut bug.failed.callee,
            &mut bug.failed.call,
            &mut bug.spaces[0],
            &mut bug.story[0],
        ] {
            *name = EVIL.into();
        }
        bug.faults[0].selector.callee = EVIL.into();
    }
    for space in &mut sweep.spaces {
        space.name = EVIL.into();
        space.sites[0].label = EVIL.into();
        space.sites[0].fault.selector.call = EVIL.into();
    }
    cases.iter_mut().for_each(|c| c.reason = Some(EVIL.into()));
    let mut run = run();
    (run.title, run.host.kernel, run.host.tool_version) = (EVIL.into(), EVIL.into(), EVIL.into());
    let faults = [sweep.bugs[0].faults[0].clone()];
    let traces = [sweep.good.clone(), sweep.bugs[0].trace.clone()];
    for html in [
        sweep_html(&SweepReport { run: &run, sweep: &sweep, cases: &cases, sockets: None }),
        recording_html(&RecordingReport { run: &run, traces: &traces, left_out: 0, faults: &faults, sockets: None }),
    ] {
        assert_eq!(html.matches("</script>").count(), 2, "the data block's and the script's own");
        assert!(!html.contains("<img") && !html.contains("<!--"));
        assert!(html.contains("&lt;/script&gt;&lt;img src=x"));
        assert_balanced(&html);
    }
}

#[test]
fn an_empty_sweep_is_unknown_and_says_so() {
    let (mut sweep, _) = shop::sweep();
    sweep.spaces.clear();
    sweep.bugs.clear();
    let html = page(&sweep, &[]);
    assert!(html.contains("? unknown") && html.contains("No case was run") && html.contains("No fault space was run"));
    assert_balanced(&html);
}

#[test]
fn a_sweep_without_bugs_passes_visibly() {
    let (mut sweep, mut cases) = shop::sweep();
    sweep.bugs.clear();
    sweep.spaces.truncate(1);
    cases.truncate(16);
    cases.iter_mut().for_each(|c| c.verdict = Verdict::Pass);
    let space = &mut sweep.spaces[0];
    (space.failures, space.passes, space.minimal) = (0, 16, Vec::new());
    let html = page(&sweep, &cases);
    assert!(html.contains("✓ pass</span>") && html.contains("No bug found: every request was answered as expected"));
}

#[test]
fn cases_of_spaces_that_do_not_exist_are_ignored() {
    let (mut sweep, mut cases) = shop::sweep();
    cases.truncate(16);
    cases[0].space = 9;
    cases[1].sites = vec![400];
    cases[1].fired = vec![400];
    sweep.spaces.truncate(1);
    assert!(page(&sweep, &cases).contains("15"));
}

#[test]
fn a_recording_shows_faults_that_never_fired() {
    let faults = ["currency/Convert#3 unavailable".parse().unwrap(), "email unavailable".parse().unwrap()];
    let traces = [shop::checkout()];
    let html =
        recording_html(&RecordingReport { run: &run(), traces: &traces, left_out: 0, faults: &faults, sockets: None });
    assert!(html.contains("fired once") && html.contains("never fired") && html.contains("1 gap"));
    assert_balanced(&html);
    let nothing =
        recording_html(&RecordingReport { run: &run(), traces: &[], left_out: 0, faults: &[], sockets: None });
    assert!(nothing.contains("No request was recorded"));
}
