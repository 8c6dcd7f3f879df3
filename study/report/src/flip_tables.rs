//! Tables of a campaign with the columns of SEI, tables 2 to 4, and the paper's figures for comparison.

use crate::escape::{put, text};
use crate::words::count;
use model::campaign::{Campaign, EXTERNAL, Row, Share, Tally, Variant, percent};

pub(crate) fn outcomes(campaign: &Campaign) -> String {
    let mut out = bars(campaign);
    out.push_str(&table(campaign, "Shares of the errors, with 95 % intervals", |v| &v.rows));
    if campaign.variants.iter().any(|v| !v.low32.is_empty()) {
        out.push_str("<details class=twin open><summary>Only flips of bits below 32</summary>");
        out.push_str("<p class=note>Flips of the upper bits of an address nearly always end in a crash, which lowers the other shares. Both policies are common, so both are shown.</p>");
        out.push_str(&table(campaign, "Bits 0 to 31", |v| if v.low32.is_empty() { &v.rows } else { &v.low32 }));
        out.push_str("</details>");
    }
    out
}

/// A bar per group and variant: no effect, then the three kinds of error.
fn bars(campaign: &Campaign) -> String {
    let mut out = String::from("<div class=flipbars>");
    for name in groups(campaign, |v| &v.rows) {
        for v in &campaign.variants {
            let Some(row) = find(&v.rows, &name) else { continue };
            let t = &row.tally;
            put!(
                out,
                "<div><b>{}{}</b>",
                text(&name),
                if campaign.variants.len() > 1 { format!(" <small>{}</small>", text(&v.name)) } else { String::new() }
            );
            out.push_str(&meter(t));
            put!(out, "<span class=muted>{}</span></div>", count(t.tried()));
        }
    }
    out.push_str("</div>");
    out.push_str(LEGEND);
    out
}

pub(crate) const LEGEND: &str = "<ul class=\"legend flips\"><li><i class=n>·</i>no effect<li><i class=f>✗</i>undetected<li><i class=p>✓</i>detected by hardening<li><i class=o2>!</i>detected otherwise<li><i class=u>?</i>not flipped or not judged</ul>";

/// Outcomes as parts of one line; the label has the same content.
pub(crate) fn meter(t: &Tally) -> String {
    let label = format!(
        "{} without effect, {} undetected, {} detected by hardening, {} detected otherwise",
        t.none, t.undetected, t.hardening, t.otherwise
    );
    let parts = [t.undetected, t.hardening, t.otherwise, t.none, t.inactive + t.unjudged];
    line(&label, parts.map(|n| (n as f64, count(n))))
}

/// Undetected, by hardening, otherwise, no effect, not flipped or not judged; each with its name.
pub(crate) fn line(label: &str, parts: [(f64, String); 5]) -> String {
    let mut out = String::new();
    put!(out, "<span class=meter role=img aria-label=\"{label}\">");
    for (class, (part, title)) in ["f", "p", "o2", "n", "u"].into_iter().zip(parts) {
        if part > 0.0 {
            put!(out, "<i class={class} style=\"flex-grow:{part}\" title=\"{title}\"></i>");
        }
    }
    out.push_str("</span>");
    out
}

fn groups(campaign: &Campaign, rows: impl Fn(&Variant) -> &Vec<Row>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for row in campaign.variants.iter().flat_map(&rows).filter(|r| !r.within) {
        if !names.contains(&row.name) {
            names.push(row.name.clone());
        }
    }
    names
}

fn find<'a>(rows: &'a [Row], name: &str) -> Option<&'a Row> {
    rows.iter().find(|r| r.name == name && !r.within)
}

fn table(campaign: &Campaign, caption: &str, rows: impl Fn(&Variant) -> &Vec<Row>) -> String {
    let mut out = String::new();
    put!(
        out,
        "<div class=scroll><table class=sei><caption>{caption}</caption><thead><tr><th><th>Program<th class=num>Flips<th class=num>No effect<th class=num>Errors<th class=num>Undetected<th><th class=num>By hardening<th class=num>Crash, hang or error</tr></thead><tbody>"
    );
    let mut names: Vec<(String, bool)> = Vec::new();
    for row in campaign.variants.iter().flat_map(&rows) {
        if !names.contains(&(row.name.clone(), row.within)) {
            names.push((row.name.clone(), row.within));
        }
    }
    for (name, within) in names {
        for (index, v) in campaign.variants.iter().enumerate() {
            let Some(row) = rows(v).iter().find(|r| r.name == name && r.within == within) else { continue };
            let name = if index == 0 { name.as_str() } else { "" };
            put!(
                out,
                "<tr{}><th>{}<td>{}<td class=num>{}<td class=num>{}<td class=num>{}{}<td class=num>{}<td class=num>{}</tr>",
                if within { " class=within" } else { "" },
                text(name),
                text(&v.name),
                count(row.tally.tried()),
                count(row.tally.none),
                count(row.tally.manifested()),
                undetected(row),
                hardening(row, campaign.hardened),
                share(row.otherwise)
            );
        }
    }
    out.push_str("</tbody></table></div>");
    out
}

fn undetected(row: &Row) -> String {
    match row.undetected {
        None => "<td class=num>–<td>".to_owned(),
        Some(s) if row.tally.undetected == 0 => {
            format!("<td class=num>none<td class=muted>below {} %", percent(s.high))
        }
        Some(s) => format!(
            "<td class=\"num ko\">{} %<td class=muted>{} to {}",
            percent(s.share),
            percent(s.low),
            percent(s.high)
        ),
    }
}

fn hardening(row: &Row, hardened: bool) -> String {
    if hardened || row.tally.hardening > 0 { share(row.hardening) } else { "–".to_owned() }
}

fn share(share: Option<Share>) -> String {
    share.map_or_else(|| "–".to_owned(), |s| format!("{} %", percent(s.share)))
}

/// Group, variant, undetected, by SEI, otherwise (percent of the errors), errors, flips.
type PaperRow = (&'static str, &'static str, f64, Option<f64>, f64, u64, u64);

/// SEI, table 2: memcached with one thread.
const TABLE_2: [PaperRow; 9] = [
    ("CF", "mc", 9.66, None, 90.34, 6690, 8000),
    ("CF", "mc-sei", 0.06, Some(14.70), 85.23, 6515, 8000),
    ("CF", "mc-sei-dup", 0.0, Some(9.87), 90.13, 6594, 8000),
    ("DF", "mc", 44.18, None, 55.82, 15_180, 32_000),
    ("DF", "mc-sei", 0.15, Some(57.55), 42.29, 20_264, 32_000),
    ("DF", "mc-sei-dup", 0.0, Some(45.81), 54.19, 15_991, 32_000),
    ("RD", "mc", 33.04, None, 66.95, 10_614, 16_000),
    ("RD", "mc-sei", 0.52, Some(46.78), 52.70, 11_508, 16_000),
    ("RD", "mc-sei-dup", 0.0, Some(49.13), 50.87, 11_442, 16_000),
];

/// SEI, table 3: with four threads.
const TABLE_3: [PaperRow; 4] = [
    ("CF", "mc-sei", 0.02, Some(13.78), 86.20, 6366, 8000),
    ("CF", "mc-seil", 0.05, Some(12.84), 87.11, 6330, 8000),
    ("DF", "mc-sei", 0.16, Some(58.58), 41.26, 19_484, 32_000),
    ("DF", "mc-seil", 0.28, Some(58.61), 41.11, 19_088, 32_000),
];

pub(crate) fn paper(campaign: &Campaign) -> String {
    let mut out = String::from(
        "<p class=sum>The paper (SEI, NSDI '15) disturbed memcached in the same way. Its inputs, its memcached and its choice of bits differ from ours and are not all published, so compare the direction, not the digits.</p>",
    );
    for (caption, rows) in [("SEI, table 2: one thread", &TABLE_2[..]), ("SEI, table 3: four threads", &TABLE_3[..])] {
        put!(
            out,
            "<div class=scroll><table class=sei><caption>{caption}, compared with ours</caption><thead><tr><th><th>Program<th class=num>Undetected<th class=num>Det/SEI<th class=num>Det/other<th class=num>Errors<th class=num>of flips</tr></thead><tbody>"
        );
        let mut last = "";
        for (index, (group, variant, undetected, sei, other, errors, flips)) in rows.iter().enumerate() {
            let sei = sei.map_or_else(|| "–".to_owned(), |p| format!("{p:.2} %"));
            put!(
                out,
                "<tr><th>{}<td>{variant} <small class=muted>paper</small><td class=num>{undetected:.2} %<td class=num>{sei}<td class=num>{other:.2} %<td class=num>{}<td class=num>{}</tr>",
                if *group == last { "" } else { group },
                count(*errors),
                count(*flips)
            );
            last = group;
            if rows.get(index + 1).is_none_or(|next| next.0 != *group) {
                out.push_str(&ours(campaign, group));
            }
        }
        out.push_str("</tbody></table></div>");
    }
    out
}

fn ours(campaign: &Campaign, group: &str) -> String {
    let mut out = String::new();
    for v in &campaign.variants {
        for (rows, bits) in
            [(&v.rows, if v.low32.is_empty() { "" } else { ", all bits" }), (&v.low32, ", bits below 32")]
        {
            let Some(row) = find(rows, group) else { continue };
            let undetected = match row.undetected {
                Some(s) if row.tally.undetected == 0 => format!("none, below {} %", percent(s.high)),
                other => share(other),
            };
            put!(
                out,
                "<tr class=ours><th><td>{}{bits}<td class=num>{undetected}<td class=num>{}<td class=num>{}<td class=num>{}<td class=num>{}</tr>",
                text(&v.name),
                hardening(row, campaign.hardened),
                share(row.otherwise),
                count(row.tally.manifested()),
                count(row.tally.tried())
            );
        }
    }
    out
}

/// Runs under the user's own disturbance are a row of their own.
pub(crate) fn is_external(campaign: &Campaign) -> bool {
    campaign.variants.iter().any(|v| v.rows.iter().any(|r| r.name == EXTERNAL))
}
