//! The tables of a fault space: its minimal failing sets, and its first failing and unknown cases. They need neither
//! script nor color and work with screen readers.

use crate::cases::Cases;
use crate::escape::{put, text};
use crate::redact;
use crate::words::{self, count, counted};
use model::Verdict;
use model::sweep::{Case, Space};
use model::trace::Protocol;

const SETS: usize = 24;
const CASES: usize = 60;

fn label(space: &Space, site: u32) -> &str {
    space.sites.get(site as usize).map_or("?", |s| s.label.as_str())
}

fn labels(space: &Space, sites: &[u32]) -> String {
    if sites.is_empty() {
        return "–".to_owned();
    }
    let names: Vec<&str> = sites.iter().map(|s| label(space, *s)).collect();
    names.join(", ")
}

fn set(space: &Space, sites: &[u32]) -> String {
    let mut out = String::from("<li>");
    if sites.is_empty() {
        out.push_str("<span class=chip>no fault</span>");
    }
    for (i, site) in sites.iter().enumerate() {
        let fault = space.sites.get(*site as usize).map_or(String::new(), |s| s.fault.to_string());
        put!(
            out,
            "{}<span class=chip title=\"{}\">{}</span>",
            if i > 0 { "<span class=plus>+</span>" } else { "" },
            text(&fault),
            text(label(space, *site))
        );
    }
    out
}

pub(crate) fn minimal_sets(space: &Space) -> String {
    let mut out = String::new();
    let n = space.minimal.len();
    if n == 0 {
        return out;
    }
    put!(
        out,
        "<div class=minimal><h4>{} <small>smallest failing combinations tested</small></h4><ul class=sets>",
        words::counted(n as u64, "failing combination")
    );
    space.minimal.iter().take(SETS).for_each(|sites| out.push_str(&set(space, sites)));
    out.push_str("</ul>");
    if n > SETS {
        put!(out, "<details class=twin><summary>{} more</summary><ul class=sets>", count((n - SETS) as u64));
        space.minimal[SETS..].iter().take(500).for_each(|sites| out.push_str(&set(space, sites)));
        out.push_str("</ul>");
        if n > SETS + 500 {
            put!(out, "<p class=note>{} further sets are not shown.</p>", count((n - SETS - 500) as u64));
        }
        out.push_str("</details>");
    }
    out.push_str("</div>");
    out
}

pub(crate) fn twin(cases: &Cases, protocol: Protocol) -> String {
    let of = |verdict: Verdict| {
        let mut of: Vec<&Case> = cases.run().filter(|c| c.verdict == verdict).collect();
        of.sort_by_key(|c| (c.sites.len(), c.case));
        of
    };
    let (failing, unknown) = (of(Verdict::Fail), of(Verdict::Unknown));
    let mut out = String::new();
    let first = |of: &[&Case], what: &str| match of.len() {
        0 => String::new(),
        n if n <= CASES => counted(n as u64, &format!("{what} case")),
        n => format!("first {CASES} of {} {what} cases", count(n as u64)),
    };
    let titles: Vec<String> =
        [first(&failing, "failing"), first(&unknown, "unknown")].into_iter().filter(|t| !t.is_empty()).collect();
    if titles.is_empty() {
        return out;
    }
    put!(
        out,
        "<details class=twin><summary>As a table: {}</summary><div class=scroll><table><thead><tr><th class=num>Case<th>Verdict<th>Faulted<th>Reached<th>Reply<th class=num>Latency<th>Reason</tr></thead><tbody>",
        titles.join(", ")
    );
    for case in failing.iter().take(CASES).chain(unknown.iter().take(CASES)) {
        put!(
            out,
            "<tr><td class=num>{}<td class=v-{}>{} {}<td>{}<td>{}<td>{}<td class=num>{}<td>{}</tr>",
            case.case,
            case.verdict,
            words::glyph(case.verdict),
            case.verdict,
            text(&labels(cases.space, &case.sites)),
            text(&labels(cases.space, &case.fired)),
            words::entry_status(protocol, case.status),
            words::duration(case.latency_us),
            text(&case.reason.as_deref().map_or("–".to_owned(), redact::reason))
        );
    }
    out.push_str("</tbody></table></div></details>");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shop;

    #[test]
    fn tables_name_the_smallest_failing_cases_first() {
        let (sweep, cases) = shop::sweep();
        let html = twin(&Cases::of(&sweep.spaces[1], cases.iter().filter(|c| c.space == 1).collect()), Protocol::Http);
        assert!(html.contains("first 60 of 128 failing cases"));
        let row = html.split("<tbody>").nth(1).unwrap();
        assert!(
            row.starts_with("<tr><td class=num>9<td class=v-fail>✗ fail<td>currency, ads<td>currency, ads<td>500"),
            "{}",
            &row[..200]
        );
    }

    #[test]
    fn minimal_sets_are_counted() {
        let (sweep, _) = shop::sweep();
        assert!(minimal_sets(&sweep.spaces[2]).contains("10 failing combinations"));
        assert!(minimal_sets(&sweep.spaces[0]).contains("1 failing combination "));
    }

    #[test]
    fn sites_out_of_range_do_not_panic() {
        let (mut sweep, _) = shop::sweep();
        sweep.spaces[0].minimal = vec![vec![77], vec![]];
        let html = minimal_sets(&sweep.spaces[0]);
        assert!(html.contains(">?<") && html.contains("no fault"));
    }
}
