//! The paper's tables with ours beside them.

use super::campaign::{Campaign, Done, Input};
use super::published::{ROWS, tried};
use model::campaign::{Row, Share, Tally};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write as _;

type All<'a> = [(&'a Campaign, Done)];

const HEAD: &str =
    "| group | variant | undetected | by hardening | otherwise | errors | of |\n|---|---|---|---|---|---|---|\n";
const GROUPS: [&str; 3] = ["CF", "DF", "RD"];

pub fn markdown(all: &All, inputs: &Value) -> String {
    let mut text = String::new();
    for (number, title) in [(2, "one thread"), (3, "four threads")] {
        let _ = writeln!(text, "## Table {number}: {title}\n\n{HEAD}{}", table(all, number));
    }
    let _ = writeln!(
        text,
        "## Another server: dnscache\n\nThe paper has Deadwood here, of which it gives one number: 32.38 % of the DF errors of the unhardened server are undetected.\n\n{HEAD}{}",
        beside(all)
    );
    let _ = writeln!(text, "## By type\n\n{}", by_type(all));
    let _ = writeln!(text, "## By which bits may flip\n\n{BITS}{}", by_lowest_bits(all));
    let _ = writeln!(text, "## Every possible flip\n\n{EXHAUSTIVE}{}", exhaustive(all));
    let _ = writeln!(text, "## Basis of the campaigns\n\n{}", grounds(all, inputs));
    text
}

/// Paper's rows first, then ours of the same table, group by group.
fn table(all: &All, number: u8) -> String {
    let mut text = String::new();
    for group in GROUPS {
        for row in ROWS.iter().filter(|row| (row.table, row.group) == (number, group)) {
            let percent = |share: f64| format!("{share:.2} %");
            let _ = writeln!(
                text,
                "| {group} | {} (paper) | {} | {} | {} | {} | {} |",
                row.variant,
                percent(row.undetected),
                row.hardening.map_or("–".to_owned(), percent),
                percent(row.otherwise),
                row.total,
                tried(group)
            );
        }
        all.iter()
            .filter(|(campaign, _)| campaign.table == number)
            .for_each(|(campaign, done)| ours(&mut text, group, campaign, done));
    }
    text
}

fn beside(all: &All) -> String {
    let mut text = String::new();
    for group in GROUPS {
        all.iter()
            .filter(|(campaign, _)| campaign.input == Input::Dns)
            .for_each(|(campaign, done)| ours(&mut text, group, campaign, done));
    }
    text
}

/// All bits, and of the same flips those of the lower 32 bits.
fn ours(text: &mut String, group: &str, campaign: &Campaign, done: &Done) {
    for (rows, policy) in [(&done.variant.rows, "all bits"), (&done.variant.low32, "low 32 bits")] {
        if let Some(row) = rows.iter().find(|row| row.name == group) {
            let _ = writeln!(text, "| {group} | **{}**, {policy} | {} |", campaign.name, shares(row));
        }
    }
}

fn shares(row: &Row) -> String {
    let tally = &row.tally;
    let hardening = if tally.hardening == 0 { "–".to_owned() } else { share(row.hardening) };
    format!(
        "{} | {hardening} | {} | {} | {}",
        share(row.undetected),
        share(row.otherwise),
        tally.manifested(),
        tally.tried()
    )
}

/// With its interval; of none the bound.
fn share(share: Option<Share>) -> String {
    match share {
        None => "–".to_owned(),
        Some(Share { share: 0.0, high, .. }) => format!("none, < {:.2} %", 100.0 * high),
        Some(Share { share, low, high }) => format!("{:.2} % [{:.2}, {:.2}]", 100.0 * share, 100.0 * low, 100.0 * high),
    }
}

fn by_type(all: &All) -> String {
    let mut text = "| variant | type | no effect | undetected | by hardening | otherwise | nothing to flip |\n|---|---|---|---|---|---|---|\n".to_owned();
    for (campaign, done) in all {
        for row in done.variant.rows.iter().filter(|row| row.within || row.name == "CF") {
            let t = &row.tally;
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} | {} |",
                campaign.name, row.name, t.none, t.undetected, t.hardening, t.otherwise, t.inactive
            );
        }
    }
    text
}

const BITS: &str = "The paper does not state which bits its injector flips. Of the same flips, those of the lowest bits alone: the \
                    fewer, the rarer a crash, and the more of the errors go undetected.\n\n\
                    | group | variant | bits | errors, of the flips | undetected, of the errors |\n|---|---|---|---|---|\n";

/// How the shares follow from the choice of bits, and the paper's own.
fn by_lowest_bits(all: &All) -> String {
    let mut text = String::new();
    for group in GROUPS {
        for row in ROWS.iter().filter(|row| (row.table, row.group, row.variant) == (2, group, "mc")) {
            let errors = 100.0 * row.total as f64 / tried(group) as f64;
            let _ = writeln!(text, "| {group} | mc (paper) | not stated | {errors:.1} % | {:.2} % |", row.undetected);
        }
        for (campaign, done) in all.iter().filter(|(campaign, _)| campaign.input != Input::Pair) {
            for bits in [8, 16, 32, u16::MAX] {
                let mut tally = Tally::default();
                for slice in done.variant.by_bit.iter().filter(|slice| slice.group.as_str() == group) {
                    if slice.key.parse::<u16>().is_ok_and(|bit| bit < bits) {
                        tally.add(&slice.tally);
                    }
                }
                if tally.manifested() > 0 {
                    let policy = if bits == u16::MAX { "all".to_owned() } else { format!("lowest {bits}") };
                    let share = |part: u64, of: u64| 100.0 * part as f64 / of as f64;
                    let errors = share(tally.manifested(), tally.tried());
                    let undetected = share(tally.undetected, tally.manifested());
                    let _ = writeln!(
                        text,
                        "| {group} | **{}** | {policy} | {errors:.1} % | {undetected:.2} % |",
                        campaign.name
                    );
                }
            }
        }
    }
    text
}

const EXHAUSTIVE: &str = "Every bit of every operand of every instruction in the work for one reply of memcached, by equivalence classes: exact \
     shares of all flips, beside the sampled flips of the same work. `agrees`: each exact share lies in the 99.9 % interval of the sampled one.\n\n\
     | variant | type | flips | no effect | undetected | otherwise | sampled | undetected of them | agrees |\n|---|---|---|---|---|---|---|---|---|\n";

fn exhaustive(all: &All) -> String {
    let mut text = String::new();
    let percent = |share: f64| format!("{:.3} %", 100.0 * share);
    for (campaign, done) in all {
        let Some(every) = &done.variant.exhaustive else { continue };
        for kind in &every.kinds {
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} | {} | {} | {} |",
                campaign.name,
                kind.kind,
                kind.flips,
                percent(kind.exact.none),
                percent(kind.exact.undetected),
                percent(kind.exact.otherwise + kind.exact.hardening),
                kind.drawn.tried(),
                kind.drawn.undetected,
                if kind.agrees { "yes" } else { "no" }
            );
        }
        let flips: u64 = every.kinds.iter().map(|kind| kind.flips).sum();
        let _ = writeln!(text, "| {} | all | {flips} | | | | in {} classes | | |", campaign.name, every.tried);
    }
    text
}

fn grounds(all: &All, inputs: &Value) -> String {
    let mut text = "| variant | instructions | replies | connections | controls | not golden | misses | not judged | verdict | minutes | per second |\n|---|---|---|---|---|---|---|---|---|---|---|\n".to_owned();
    for (campaign, Done { variant: v, verdict }) in all {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {verdict} | {:.1} | {:.0} |",
            campaign.name,
            v.instructions,
            v.replies,
            v.connections,
            v.controls.run,
            v.controls.deviating,
            v.misses,
            v.tally.unjudged,
            (v.seconds.profile + v.seconds.wall) / 60.0,
            // of the last session, if it was interrupted
            v.tally.tried() as f64 / v.seconds.wall.max(1e-9),
        );
    }
    let (memcached, counts, zone) = (&inputs["memcached"], &inputs["counts"], &inputs["dnscache"]);
    let _ = writeln!(
        text,
        "\nmemcached's trace: {} commands on {} connections; the server itself counts {} evictions, {} hits and {} misses of `get`, {} sets. \
         dnscache's: {} questions of {} clients.",
        memcached["commands"],
        memcached["connections"],
        counts["evictions"],
        counts["get_hits"],
        counts["get_misses"],
        counts["cmd_set"],
        zone["questions"],
        zone["clients"]
    );
    let remarks: BTreeSet<String> = all
        .iter()
        .flat_map(|(campaign, done)| done.variant.remarks.iter().map(|remark| format!("{}: {remark}", campaign.name)))
        .collect();
    remarks.iter().for_each(|remark| _ = writeln!(text, "\n- {remark}"));
    text
}
