//! One card per bug: title, story, faults, the command that reproduces it, the difference from the good request.

use crate::escape::{put, text};
use crate::redact;
use crate::services::Services;
use crate::timeline;
use crate::words::{count, counted};
use model::Run;
use model::redact::LEFT_OUT;
use model::sweep::{Bug, Harm, LogExcerpt, RealStop, Sweep, Unexplained};

/// Rows of a bug's timeline; later bugs of a long list get few, so that the page stays small.
const ROWS: usize = 240;
const ROWS_LATER: usize = 40;
const FULL_BUGS: usize = 6;

pub(crate) fn anchor(index: usize) -> String {
    format!("bug-{}", index + 1)
}

/// The meaning of a name such as `SimpleTFI`.
fn explained(name: &str) -> Option<&'static str> {
    // the second one of a kind is `SimpleTFI 2`
    Some(match name.split(' ').next()? {
        "SimpleRLFI" => "one fault, independent of its moment",
        "SimpleTFI" => "one fault, at a certain moment of the request",
        "DeepRLFI" => "several faults together, independent of their moments",
        "DeepTFI" => "several faults together, at certain moments of the request",
        _ => return None,
    })
}

/// A command with a button that copies it. The page's script shows the button.
pub(crate) fn command(line: &str) -> String {
    let mut out = String::new();
    put!(out, "<div class=cmd><code>{}</code><button type=button class=copy hidden>Copy</button></div>", text(line));
    out
}

/// Without values of the reply.
pub fn real_stop(real: &RealStop) -> String {
    match real {
        RealStop::Confirmed { stopped, violation } => {
            RealStop::Confirmed { stopped: stopped.clone(), violation: redact::reason(violation) }.describe()
        }
        RealStop::NotConfirmed { .. } => real.describe(),
        RealStop::NotPossible { reason } => model::redact::text(&format!("Not repeated with a real stop: {reason}")),
    }
}

pub(crate) fn card(index: usize, bug: &Bug, sweep: &Sweep, services: &Services, run: &Run) -> String {
    let mut out = String::new();
    let id = anchor(index);
    put!(
        out,
        "<article class=bug id={id} aria-labelledby={id}-t><header><span class=nr aria-hidden=true>{}</span><div><h3 id={id}-t>{}</h3><p class=tags><b class=name>{}</b>",
        index + 1,
        text(&bug.title),
        text(&bug.name)
    );
    if let Some(words) = explained(&bug.name) {
        put!(out, " <span>{words}</span>");
    }
    for words in [bug.harm.map_or("", Harm::describe), &bug.mistake] {
        if !words.is_empty() {
            put!(out, " <span class=kind>{}</span>", text(words));
        }
    }
    put!(
        out,
        "</p></div><p class=cost><b>{}</b> failing {}<br> <span>",
        count(bug.failing_cases),
        if bug.failing_cases == 1 { "case" } else { "cases" }
    );
    if !bug.spaces.is_empty() {
        put!(out, "in {}", text(&bug.spaces.join(", ")));
    }
    out.push_str("</span></p></header><div class=two-columns><div><h4>What happened</h4><ol class=story>");
    for sentence in &bug.story {
        put!(out, "<li>{}", text(sentence));
    }
    if bug.story.is_empty() {
        out.push_str("<li class=muted>Not recorded.");
    }
    out.push_str("</ol>");
    if let Some(log) = &bug.log {
        out.push_str(&log_of(log, run));
    }
    if !bug.violation.is_empty() {
        put!(out, "<h4>Why the reply is wrong</h4><p class=failed>{}</p>", text(&redact::reason(&bug.violation)));
    }
    if let Some(real) = &bug.real_stop {
        put!(out, "<h4>With real stops</h4><p class=failed>{}</p>", text(&real_stop(real)));
    }
    put!(
        out,
        "</div><div><h4>{}</h4><ul class=faults>",
        if bug.faults.len() == 1 { "The fault" } else { "The faults, all needed" }
    );
    for (i, fault) in bug.faults.iter().enumerate() {
        put!(out, "<li><span class=fx>↯{}</span> <code>{}</code>", i + 1, text(&fault.to_string()));
    }
    let f = &bug.failed;
    put!(
        out,
        "</ul><h4>The call whose failure was not handled</h4><p class=failed><span>{}</span> → <b>{}</b> <code>{}</code></p></div></div>",
        text(&f.caller),
        text(&f.callee),
        text(&f.call)
    );
    put!(out, "<h4>See it again</h4>{}", again(&bug.again, run));
    let limit = if index < FULL_BUGS { ROWS } else { ROWS_LATER };
    put!(
        out,
        "<h4>Difference from the good request</h4><p class=sum>{}</p>{}</article>",
        summary(bug, sweep),
        timeline::difference(&sweep.good, &bug.trace, services, limit)
    );
    out
}

/// The command that sends a request again.
fn again(line: &str, run: &Run) -> String {
    let again = redact::command(line);
    let mut out = command(&again);
    if again.contains(LEFT_OUT) {
        put!(
            out,
            "<p class=note>{LEFT_OUT} stands for what may be a secret. <code>faultloom show {}</code> prints the exact command.</p>",
            run.id.short()
        );
    }
    out
}

/// What the service wrote when it crashed. A page that may be shared has none of its lines.
fn log_of(log: &LogExcerpt, run: &Run) -> String {
    let mut out = String::new();
    put!(out, "<h4>Log of {} at that time</h4>", text(&log.service));
    match (&log.unreadable, log.lines.is_empty()) {
        (Some(why), _) => put!(out, "<p class=note>None: {}.</p>", text(why)),
        (None, true) => put!(
            out,
            "<p class=note>It may contain secrets. <code>faultloom show {}</code> prints its lines.</p>",
            run.id.short()
        ),
        (None, false) => put!(out, "<pre class=log>{}</pre>", text(&log.lines.join("\n"))),
    }
    out
}

/// Calls whose errors are passed on while nothing has happened, each with its command.
pub(crate) fn hard_dependencies(sweep: &Sweep, run: &Run) -> String {
    let needed: Vec<&Bug> = sweep.bugs.iter().filter(|bug| bug.is_hard_dependency()).collect();
    if needed.is_empty() {
        return String::new();
    }
    let names: Vec<String> =
        needed.iter().map(|bug| text(&format!("{}/{}", bug.failed.callee, bug.failed.call)).to_string()).collect();
    let mut out = String::from("<article class=needed id=hard-dependencies>");
    put!(
        out,
        "<h3>{}: {}</h3><p class=sum>Their errors are passed on to the user, and nothing had happened yet.</p>",
        counted(needed.len() as u64, "hard dependency").replace("dependencys", "dependencies"),
        names.join(", ")
    );
    out.push_str("<details class=twin><summary>With the commands</summary><ul>");
    for bug in needed {
        put!(out, "<li>{} <span>{}</span>", text(&bug.title), counted(bug.failing_cases, "failing case"));
        if let Some(real) = &bug.real_stop {
            put!(out, "<p class=sum>{}</p>", text(&real_stop(real)));
        }
        out.push_str(&again(&bug.again, run));
    }
    out.push_str("</ul></details></article>");
    out
}

/// Failing cases that belong to no bug, each group with its command.
pub(crate) fn unexplained(all: &[Unexplained], run: &Run) -> String {
    if all.is_empty() {
        return String::new();
    }
    let cases: u64 = all.iter().map(|one| one.failing_cases).sum();
    let mut out = String::new();
    put!(out, "<article class=needed id=unexplained><h3>Not explained: {}</h3><ul>", counted(cases, "failing case"));
    for one in all {
        put!(
            out,
            "<li>{}: {} <span>{}</span>{}",
            counted(one.failing_cases, "case"),
            text(&redact::reason(&one.reason)),
            text(&one.spaces.join(", ")),
            again(&one.again, run)
        );
    }
    out.push_str("</ul></article>");
    out
}

/// A line above the timeline, such as `1 call failed, 10 calls missing, 1 call extra`.
fn summary(bug: &Bug, sweep: &Sweep) -> String {
    use crate::align::{Change, Node, two};
    fn add(node: &Node, n: &mut [u64; 4]) {
        for child in &node.children {
            match child.change {
                Change::Failed => n[0] += 1,
                Change::Missing => n[1] += 1,
                Change::Extra => n[2] += 1,
                Change::Other => n[3] += 1,
                Change::Same => {}
            }
            add(child, n);
        }
    }
    let mut n = [0; 4];
    add(&two(&sweep.good, &bug.trace), &mut n);
    let parts: Vec<String> = [
        (n[0], "<b class=ko>✗ {} failed</b>"),
        (n[1], "<b class=mi>− {} missing</b>"),
        (n[2], "<b class=xt>+ {} extra</b>"),
        (n[3], "<b>≠ {} ended differently</b>"),
    ]
    .into_iter()
    .filter(|(n, _)| *n > 0)
    .map(|(n, words)| words.replace("{}", &counted(n, "call")))
    .collect();
    if parts.is_empty() { "The same calls were made, with the same outcomes.".to_owned() } else { parts.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shop;

    #[test]
    fn numbered_names_are_explained_too() {
        assert_eq!(explained("SimpleRLFI 2"), explained("SimpleRLFI"));
        assert!(explained("SimpleRLFI 2").is_some() && explained("Other 2").is_none());
    }

    #[test]
    fn a_card_has_every_part() {
        let (sweep, _) = shop::sweep();
        let services = Services::of(std::iter::once(&sweep.good).chain(sweep.bugs.iter().map(|b| &b.trace)));
        let html = card(1, &sweep.bugs[1], &sweep, &services, &shop::run(model::KindName::new("sweep"), "x", None));
        for part in [
            "ads and currency both down",
            "DeepRLFI",
            "a fallback that is not itself protected",
            "<code>ads unavailable</code>",
            "--fault &#39;currency unavailable&#39;",
            "2,180",
            "services, all-services, temporal",
            "− missing",
            "+ extra",
            "✗ 2 calls failed",
            "− 10 calls missing",
            "+ 1 call extra",
        ] {
            assert!(html.contains(part), "{part}");
        }
    }
}
