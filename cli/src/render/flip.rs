//! A campaign of bit flips in a terminal: the paper's columns with their intervals, and remarks on their validity.

use super::flip_parts::{exhaustive, latency};
use app::text::{grouped, plural, printable, rounded};
use model::campaign::{Campaign, EXTERNAL, Row, Share, Variant, percent};

/// One variant in a line.
pub fn sentence(variant: &Variant) -> String {
    let mut parts = vec![printable(&variant.name)];
    if variant.instructions > 0 {
        parts.push(format!("{} instructions", rounded(variant.instructions)));
    }
    let connections = match variant.connections {
        0 | 1 => String::new(),
        n => format!(" on {n} streams"),
    };
    parts.push(format!("{}{connections}", plural(variant.replies, "message")));
    parts.push(format!(
        "{} of {} controls golden",
        grouped(variant.controls.run - variant.controls.deviating),
        grouped(variant.controls.run)
    ));
    let rate = variant.tally.tried() as f64 / variant.seconds.wall.max(0.001);
    if variant.rows.iter().any(|row| row.name == EXTERNAL) {
        parts.push(plural(variant.tally.tried(), "run"));
    }
    if variant.seconds.wall > 0.0 {
        parts.push(format!("{}/s", grouped(rate as u64)));
    }
    parts.join(" · ")
}

/// All tables.
pub fn all(campaign: &Campaign) -> String {
    let every = campaign.variants.iter().filter_map(exhaustive);
    std::iter::once(tables(campaign)).chain(every).chain(latency(campaign)).collect::<Vec<_>>().join("\n")
}

/// A table of all variants, and one for the low 32 bits if other bits were flipped too.
pub fn tables(campaign: &Campaign) -> String {
    let hardened = campaign.hardened || campaign.variants.iter().any(|v| v.tally.hardening > 0);
    let mut out = table(campaign, hardened, |variant| variant.rows.iter().collect());
    if campaign.variants.iter().any(|variant| !variant.low32.is_empty()) {
        out.push_str("\n of these, bits below 32\n");
        out.push_str(&table(campaign, hardened, low_bits));
    }
    out
}

/// Only groups; the HTML page also has the types.
fn low_bits(variant: &Variant) -> Vec<&Row> {
    let rows = if variant.low32.is_empty() { &variant.rows } else { &variant.low32 };
    rows.iter().filter(|row| !row.within).collect()
}

fn table<'a>(campaign: &'a Campaign, hardened: bool, rows: impl Fn(&'a Variant) -> Vec<&'a Row>) -> String {
    let several = campaign.variants.len() > 1;
    let width =
        if several { campaign.variants.iter().map(|v| v.name.chars().count()).max().unwrap_or(0).min(16) } else { 0 };
    let mut out = format!(
        " {:<9}{:width$}{:>9}{:>10}{:>8}   {:<25}{:<12}{}\n",
        "",
        "",
        "flips",
        "no effect",
        "errors",
        "of these undetected",
        if hardened { "hardening" } else { "" },
        "crash/error"
    );
    let mut names: Vec<(&str, bool)> = Vec::new();
    for row in campaign.variants.iter().flat_map(&rows) {
        if !names.contains(&(row.name.as_str(), row.within)) {
            names.push((&row.name, row.within));
        }
    }
    for (name, within) in names {
        for (index, variant) in campaign.variants.iter().enumerate() {
            let Some(row) = rows(variant).into_iter().find(|row| (row.name.as_str(), row.within) == (name, within))
            else {
                continue;
            };
            let label = if index > 0 { String::new() } else { format!("{}{name}", if within { "  " } else { "" }) };
            let of: String = if several { printable(&variant.name).chars().take(16).collect() } else { String::new() };
            let hardening = if hardened { short(row.hardening) } else { String::new() };
            out.push_str(&format!(
                " {label:<9}{of:width$}{:>9}{:>10}{:>8}   {:<25}{hardening:<12}{}\n",
                grouped(row.tally.tried()),
                grouped(row.tally.none),
                grouped(row.tally.manifested()),
                whole(row.undetected, row.tally.undetected),
                short(row.otherwise),
            ));
        }
    }
    out
}

fn short(share: Option<Share>) -> String {
    share.map_or_else(|| "–".to_owned(), |s| format!("{} %", percent(s.share)))
}

fn whole(share: Option<Share>, count: u64) -> String {
    match (share, count) {
        (None, _) => "–".to_owned(),
        (Some(s), 0) => format!("none (below {} %)", percent(s.high)),
        (Some(s), _) => format!("{} % [{}, {}]", percent(s.share), percent(s.low), percent(s.high)),
    }
}

/// Limits of the figures, one line each.
pub fn remarks(campaign: &Campaign, doubts: &[String]) -> Vec<String> {
    let mut lines: Vec<String> = doubts.iter().map(|doubt| format!("unknown: {}", printable(doubt))).collect();
    let several = campaign.variants.len() > 1;
    for variant in &campaign.variants {
        let of = if several { format!("{}: ", printable(&variant.name)) } else { String::new() };
        let mut remark = |count: u64, words: &str| {
            if count > 0 {
                lines.push(format!("{of}{} {words}", grouped(count)));
            }
        };
        remark(variant.tally.inactive, "could not be flipped; they are not among \"no effect\"");
        remark(
            variant.tally.corrupt_later,
            "were detected first and sent wrong replies later, which a client that continues would accept",
        );
        remark(variant.refused_calls, "system calls of disturbed programs were refused by containment");
        lines.extend(variant.remarks.iter().map(|remark| format!("{of}{}", printable(remark))));
    }
    if campaign.variants.iter().any(|v| v.tally.manifested() > 0) {
        lines.push("shares are of the errors, with 95 % intervals".to_owned());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::campaign::Tally;
    use model::flip::{BitPolicy, FlipType};

    fn variant(name: &str, undetected: u64, hardening: u64) -> Variant {
        let tally =
            Tally { none: 1310, undetected, hardening, otherwise: 6690 - undetected - hardening, ..Tally::default() };
        let share = |count| campaign::statistics::share(count, tally.manifested());
        let row = Row {
            name: "CF".to_owned(),
            within: false,
            tally,
            undetected: share(undetected),
            hardening: share(hardening),
            otherwise: share(tally.otherwise),
        };
        Variant { name: name.to_owned(), tally, rows: vec![row], ..Variant::default() }
    }

    #[test]
    fn remarks_end_with_the_base_of_the_shares() {
        let lines_of = |variant: Variant, doubts: &[String]| {
            let campaign = Campaign { variants: vec![variant], ..campaign() };
            remarks(&campaign, doubts)
        };
        let mut remarked = variant("mc", 5, 0);
        remarked.remarks = vec!["it is stripped".to_owned()];
        let lines = lines_of(remarked, &["a control deviated".to_owned()]);
        assert_eq!(
            lines,
            ["unknown: a control deviated", "it is stripped", "shares are of the errors, with 95 % intervals"]
        );
        let without = Variant { tally: Tally { none: 7, ..Tally::default() }, ..Variant::default() };
        assert_eq!(lines_of(without, &[]), Vec::<String>::new());
    }

    fn campaign() -> Campaign {
        Campaign {
            protocol: "memcached".to_owned(),
            hardened: true,
            seed: 1,
            bits: BitPolicy::Low32,
            types: vec![(FlipType::Cf, 8000)],
            variants: vec![variant("mc", 646, 0), variant("mc-sei", 4, 983), variant("mc-sei-dup", 0, 660)],
        }
    }

    #[test]
    fn a_table_has_the_papers_columns() {
        let campaign = campaign();
        let expected = [
            "                        flips no effect  errors   of these undetected      hardening   crash/error",
            " CF       mc            8,000     1,310   6,690   9.66 % [8.97, 10.4]      0.0 %       90.3 %",
            "          mc-sei        8,000     1,310   6,690   0.060 % [0.023, 0.15]    14.7 %      85.2 %",
            "          mc-sei-dup    8,000     1,310   6,690   none (below 0.045 %)     9.87 %      90.1 %",
        ];
        assert_eq!(tables(&campaign).lines().collect::<Vec<_>>(), expected);
        assert!(tables(&campaign).lines().all(|line| line.chars().count() <= 100));
    }
}
