//! Pages of campaigns: complete, small, with notes on their limits, and safe against hostile names.

use crate::fixture_flips::{campaign, row};
use crate::{FlipReport, flip_html, shop};
use model::campaign::{Campaign, Controls, EXTERNAL, LiveFlip, LiveProcess, Tally};
use model::flip::Outcome;
use model::{KindName, Verdict};

fn page(campaign: &Campaign) -> String {
    flip_html(&FlipReport { run: &shop::run(KindName::new("flip"), "memcached", Some(Verdict::Fail)), campaign })
}

#[test]
fn a_page_has_both_policies_the_papers_tables_and_every_story() {
    let html = page(&campaign());
    for part in [
        "12,750 undetected",
        "Only flips of bits below 32",
        "SEI, table 2",
        "SEI, table 3",
        "44.18 %",
        "memcached, bits below 32",
        "By class of instruction",
        "By bit",
        "process_get_command",
        "proto_text.c:512",
        "value-of-key-9zz",
        "the first of 2 connections that differ",
        "faultloom flip replay",
        "default-src 'none'",
    ] {
        assert!(html.contains(part), "{part}");
    }
    assert!(html.len() < 400_000, "{}", html.len());
    for tag in ["div", "span", "details", "section", "article", "table", "ul", "p", "h3", "svg", "figure", "code", "dl"]
    {
        let open = html.matches(&format!("<{tag}>")).count() + html.matches(&format!("<{tag} ")).count();
        assert_eq!(open, html.matches(&format!("</{tag}>")).count(), "{tag}");
    }
}

#[test]
fn none_seen_has_its_bound() {
    let mut campaign = campaign();
    let tally = Tally { none: 10, otherwise: 100, ..Tally::default() };
    let mut none = row("CF", false, tally);
    none.undetected.as_mut().unwrap().high = 0.0295;
    campaign.variants[0].rows = vec![none];
    assert!(page(&campaign).contains("none<td class=muted>below 2.95 %"));
}

#[test]
fn every_flip_stands_beside_the_drawn_ones() {
    let html = page(&campaign());
    for part in [
        "Exhaustive",
        "In the work for reply 4: <strong>122,880 flips</strong>, of which 30,020 of 30,020 classes were tried",
        // exact, and sampled
        "12.5 % <small class=muted>(12.5)</small>",
        "1.00 % <small class=muted>(1.00)</small>",
        "aria-label=\"50.0 % without effect, 12.5 % undetected, 0.0 % detected by hardening, 36.5 % detected otherwise\"",
        "✓ yes",
        "✗ no",
    ] {
        assert!(html.contains(part), "{part}");
    }
    let mut drawn = campaign();
    drawn.variants[0].exhaustive = None;
    assert!(!page(&drawn).contains("Exhaustive"));
}

#[test]
fn the_detection_latency_is_shown_where_it_is_known() {
    let html = page(&campaign());
    for part in
        ["Detection latency", "<td>undetected<td class=num>6,706", "880", "with 6 others between it and the flip"]
    {
        assert!(html.contains(part), "{part}");
    }
    let mut unknown = campaign();
    for variant in &mut unknown.variants {
        variant.latency.clear();
        variant.stories.iter_mut().flat_map(|s| &mut s.deviation).for_each(|d| d.replies_since = None);
    }
    let html = page(&unknown);
    assert!(!html.contains("Detection latency") && !html.contains("between it and the flip"));
}

#[test]
fn limits_of_the_figures_are_listed() {
    let mut campaign = campaign();
    campaign.variants[1].controls = Controls { planned: 9, run: 9, deviating: 2 };
    campaign.variants[1].tally.inactive = 3;
    let html = page(&campaign);
    assert!(html.contains("memcached-sei: 2 fault-free runs did not give the golden output"));
    assert!(html.contains("memcached-sei: 3 flips could not be injected") && html.contains("! 2 notes"));
}

#[test]
fn names_and_output_of_programs_stay_text() {
    const EVIL: &str = "<img src=x onerror=alert(1)>\u{202e}";
    let mut campaign = campaign();
    let variant = &mut campaign.variants[0];
    variant.name = EVIL.to_owned();
    variant.command = vec![EVIL.to_owned()];
    variant.remarks = vec![EVIL.to_owned()];
    variant.by_function[0].key = EVIL.to_owned();
    let story = &mut variant.stories[0];
    story.effect.hit = EVIL.to_owned();
    let deviation = story.deviation.as_mut().unwrap();
    (deviation.actual, deviation.connection) = (EVIL.to_owned(), EVIL.to_owned());
    let injection = story.injection.as_mut().unwrap();
    (injection.symbol, injection.module, injection.source) =
        (Some(EVIL.to_owned()), EVIL.to_owned(), Some(EVIL.to_owned()));
    let html = page(&campaign);
    assert!(!html.contains("<img") && !html.contains('\u{202e}') && html.contains("&lt;img"));
}

#[test]
fn disturbed_runs_have_no_bits() {
    let mut campaign = campaign();
    campaign.variants.truncate(1);
    let variant = &mut campaign.variants[0];
    variant.tally = Tally { none: 90, undetected: 1, otherwise: 9, ..Tally::default() };
    variant.rows = vec![row(EXTERNAL, false, variant.tally)];
    variant.low32.clear();
    let html = page(&campaign);
    assert!(html.contains("100 disturbed runs") && !html.contains("By bit") && !html.contains("SEI, table 2"));
}

#[test]
fn flips_in_a_running_process_are_listed_each_and_never_repeated() {
    let mut campaign = campaign();
    campaign.variants.truncate(1);
    let variant = &mut campaign.variants[0];
    let mut flips = variant.stories.clone();
    flips.iter_mut().for_each(|flip| flip.live = Some(LiveFlip { thread: 4712, is_running: true }));
    flips[0].outcome = Some(Outcome::None);
    flips[1].outcome = Some(Outcome::Otherwise);
    flips[1].live = Some(LiveFlip { thread: 4713, is_running: false });
    variant.live = Some(LiveProcess { pid: 4711, check: Some("./ask <host>".to_owned()), is_running: false, flips });
    let html = page(&campaign);
    for part in ["process 4711", "ask …", "thread 4712", "no effect", "the process has ended, thread 4713"] {
        assert!(html.contains(part), "{part}");
    }
    assert!(!html.contains("flip replay"), "none can be repeated");
}

#[test]
fn arguments_of_programs_are_left_out() {
    let mut campaign = campaign();
    campaign.variants[0].command = ["/usr/bin/gzip", "-c", "--key=SECRETkey", "SECRETarg"].map(str::to_owned).to_vec();
    let html = page(&campaign);
    assert!(html.contains("<code>gzip -c --key=… …</code>") && !html.contains("SECRET"));
    let run = shop::run(KindName::new("flip"), "memcached", Some(Verdict::Fail));
    let complete = crate::flip_html_unredacted(&FlipReport { run: &run, campaign: &campaign });
    assert!(complete.contains("/usr/bin/gzip -c --key=SECRETkey SECRETarg"));
}
