//! Flips in a running process, each with its outcome.

use crate::escape::{put, text};
use crate::flips::{STORIES, card};
use crate::words::{count, duration};
use model::campaign::{Campaign, LiveProcess, Logged, Variant};
use model::flip::Ending;

/// How the program ended, or that the process runs on.
pub(crate) fn end(story: &Logged) -> String {
    if let Some(live) = story.live {
        let process = if live.is_running { "the process continues" } else { "the process has ended" };
        let remark = story.remark.as_ref().map_or(String::new(), |remark| format!("; {remark}"));
        return format!("{process}{remark}, thread {}", live.thread);
    }
    let ending = match &story.effect.ending {
        Ending::Exit(status) => format!("exit status {status}"),
        Ending::Signal(signal) => format!("signal {signal}"),
        Ending::Hang => "hung".to_owned(),
    };
    let crash = story.effect.crash.as_ref().and_then(|c| c.symbol.as_ref());
    let crash = crash.map_or(String::new(), |s| format!(" in {s}"));
    let took = duration(story.effect.cpu_us);
    match story.injection {
        Some(_) => format!("{ending}{crash}, {took} of CPU after the flip"),
        None => format!("{ending}{crash}, after {took}"),
    }
}

pub(crate) fn of(campaign: &Campaign) -> Option<(&Variant, &LiveProcess)> {
    campaign.variants.iter().find_map(|variant| variant.live.as_ref().map(|process| (variant, process)))
}

/// Every flip in a running process, with its outcome.
pub(crate) fn each(variant: &Variant, process: &LiveProcess) -> String {
    let mut out = String::new();
    let now = if process.is_running {
        "It continues to run in a corrupt state: restart it before you rely on it."
    } else {
        "It has ended."
    };
    put!(
        out,
        "<p class=sum>Flips in the running process {}. They accumulate: the effect of one may appear after a later one. {now} None of them can be repeated.</p>",
        process.pid
    );
    match &process.check {
        Some(check) => put!(out, "<p class=note>Judged by <code>{}</code></p>", text(check)),
        None => out.push_str("<p class=note>Replies to clients were not checked (no --check).</p>"),
    }
    for logged in process.flips.iter().take(STORIES) {
        out.push_str(&card(variant, logged, None, false));
    }
    let shown = process.flips.len().min(STORIES) as u64;
    if shown < variant.tally.tried() {
        put!(out, "<p class=note>{} more are in the run's log.</p>", count(variant.tally.tried() - shown));
    }
    out
}
