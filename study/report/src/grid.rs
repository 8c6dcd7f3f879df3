//! Draws a fault space: every case is a cell whose glyph and color show the outcome. In small spaces, arrow keys move
//! between cells. Large ones have one point per case, and tables of the shares per site and per pair of sites.

use crate::cases::{Cases, Result, gray};
use crate::escape::{put, text};
use crate::words::{count, percent};

/// Spaces with more cells are drawn as points.
const MOST_CELLS: usize = 1_024;
/// With more sites a matrix is not legible.
const MATRIX_SITES: usize = 40;

pub(crate) fn space(index: usize, cases: &Cases) -> String {
    let mut out = String::new();
    if cases.run().next().is_none() {
        return "<p class=note>This page has no case of this space.</p>".to_owned();
    }
    let large = cases.cells.len() > MOST_CELLS;
    if !large || cases.is_map() {
        put!(out, "<div class=\"field{}\" data-space={index}>", if large { " large" } else { "" });
        map(&mut out, cases, large);
        out.push_str("<aside class=case aria-live=polite hidden><p class=hint>Point at a case, or use the arrow keys, to see its faults and its outcome.</p></aside></div>");
        legend(&mut out, cases);
    }
    if cases.is_map() && cases.space.sites.len() > 1 {
        put!(
            out,
            "<p class=how>Each {} is one case. Bars beside the edges show which sites are faulted there; neighboring rows and columns differ in one fault.</p>",
            if large { "point" } else { "cell" }
        );
    }
    if !large && !cases.is_map() {
        out.push_str("<p class=how>Each cell is one case, those with the fewest faults first.</p>");
    }
    // shares are meaningless for small spaces, such as that of guided exploration
    if large {
        out.push_str("<div class=pair>");
        out.push_str(&influence(cases));
        if (2..=MATRIX_SITES).contains(&cases.space.sites.len()) {
            out.push_str(&matrix(cases));
        }
        out.push_str("</div>");
    }
    out
}

fn map(out: &mut String, cases: &Cases, large: bool) {
    let rows = cases.cells.len().div_ceil(cases.columns);
    put!(
        out,
        "<div class=\"map{}\" style=\"--n:{};--m:{rows}\">",
        if cases.is_map() { "" } else { " list" },
        cases.columns
    );
    if cases.is_map() {
        bands(out, cases, &cases.column_sites, cases.columns, "columns");
        bands(out, cases, &cases.row_sites, rows, "rows");
    }
    let name = format!("Cases of the space {}", cases.space.name);
    if large {
        let aria = format!("{name}; arrow keys move between cases");
        put!(
            out,
            "<svg class=cells viewBox=\"0 0 {} {rows}\" preserveAspectRatio=none tabindex=0 role=img aria-label=\"{}\">",
            cases.columns,
            text(&aria)
        );
        points(out, cases, rows);
        out.push_str("</svg>");
    } else {
        put!(out, "<div class=cells role=grid aria-label=\"{}\">", text(&name));
        for row in cases.cells.chunks(cases.columns) {
            out.push_str("<div role=row>");
            for cell in row {
                let result = cell.map_or(Result::NotRun, Result::of);
                put!(out, "<i class={}>{}</i>", result.letter(), result.glyph());
            }
            out.push_str("</div>");
        }
        out.push_str("</div>");
    }
    out.push_str("</div>");
}

/// One path per outcome, made of rectangles. The largest one has the glyph, so that the map can be read without color.
fn points(out: &mut String, cases: &Cases, rows: usize) {
    let results: Vec<Result> = cases.cells.iter().map(|c| c.map_or(Result::NotRun, Result::of)).collect();
    let columns = cases.columns;
    let mut drawn = vec![false; results.len()];
    for result in [Result::Pass, Result::Fail, Result::Unknown, Result::Unaffected] {
        let open = |i: usize, drawn: &[bool]| results[i] == result && !drawn[i];
        let mut path = String::new();
        let mut largest = (0, 0.0, 0.0, 0);
        for at in 0..results.len() {
            if !open(at, &drawn) {
                continue;
            }
            let (x, y) = (at % columns, at / columns);
            let width = (x..columns).take_while(|x| open(y * columns + x, &drawn)).count();
            let full = |y: &usize| (x..x + width).all(|x| open(y * columns + x, &drawn));
            let height = (y..rows).take_while(full).count();
            for y in y..y + height {
                drawn[y * columns + x..y * columns + x + width].fill(true);
            }
            put!(path, "M{x} {y}h{width}v{height}h-{width}z");
            if width * height > largest.0 {
                let middle = |from: usize, size: usize| from as f64 + size as f64 / 2.0;
                largest = (width * height, middle(x, width), middle(y, height), width.min(height));
            }
        }
        if !path.is_empty() {
            put!(out, "<path class={} d=\"{path}\"/>", result.letter());
        }
        let (_, x, y, least) = largest;
        if least * 12 >= columns {
            let size = (columns as f64 / 14.0).max(1.0);
            put!(
                out,
                "<text class={} x={x} y=\"{:.1}\" font-size=\"{size:.1}\">{}</text>",
                result.letter(),
                y + size * 0.36,
                result.glyph()
            );
        }
    }
}

/// Strips along one edge, one per site, filled where the site is faulted.
fn bands(out: &mut String, cases: &Cases, sites: &[usize], length: usize, axis: &str) {
    put!(out, "<div class=\"bands {axis}\" aria-hidden=true>");
    for (place, site) in sites.iter().enumerate() {
        let bit = sites.len() - 1 - place;
        let label = cases.space.sites.get(*site).map_or("", |s| s.label.as_str());
        put!(out, "<div><b title=\"{0}\">{0}</b><span>", text(label));
        let on = |i: usize| gray(i) >> bit & 1 == 1;
        let mut i = 0;
        while i < length {
            let run = (i..length).take_while(|j| on(*j) == on(i)).count();
            if on(i) {
                let (from, size) = (i as f64 * 100.0 / length as f64, run as f64 * 100.0 / length as f64);
                put!(out, "<i style=\"--a:{from:.4}%;--z:{size:.4}%\"></i>");
            }
            i += run;
        }
        out.push_str("</span></div>");
    }
    out.push_str("</div>");
}

fn legend(out: &mut String, cases: &Cases) {
    out.push_str("<ul class=legend>");
    for (result, words) in [
        (Result::Fail, "fails"),
        (Result::Pass, "passes"),
        (Result::Unaffected, "passes; no fault was reached"),
        (Result::Unknown, "unknown"),
        (Result::NotRun, "not run"),
    ] {
        let n = cases.cells.iter().filter(|c| c.map_or(Result::NotRun, Result::of) == result).count() as u64;
        if n > 0 {
            put!(
                out,
                "<li><i class={}>{}</i> {words} <span class=num>{}</span>",
                result.letter(),
                result.glyph(),
                count(n)
            );
        }
    }
    out.push_str("</ul>");
}

/// Per site: the share of failing cases with and without its fault, and how often the fault fired.
fn influence(cases: &Cases) -> String {
    let mut out = String::from(
        "<div class=scroll><table class=sites><caption>Share of failing cases, by site</caption><thead><tr><th>Site<th>faulted<th>not faulted<th class=num>reached</tr></thead><tbody>",
    );
    for (site, i) in cases.space.sites.iter().zip(&cases.influence) {
        let bar = |part: u64, whole: u64| {
            let share = if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 };
            format!(
                "<span class=share title=\"{} of {} cases\"><i style=\"width:{share:.1}%\"></i><b>{} %</b></span>",
                count(part),
                count(whole),
                percent(part, whole)
            )
        };
        put!(
            out,
            "<tr><th title=\"{}\">{}<td>{}<td>{}<td class=num>{} %</tr>",
            text(&site.fault.to_string()),
            text(&site.label),
            bar(i.failing, i.cases),
            bar(i.failing_without, i.cases_without),
            percent(i.fired, i.cases)
        );
    }
    out.push_str("</tbody></table></div>");
    out
}

/// Site × site: the percentage of failing cases among those with both faults.
fn matrix(cases: &Cases) -> String {
    let n = cases.space.sites.len();
    let pairs = cases.pairs();
    let mut out = String::from(
        "<div class=scroll><table class=matrix><caption>Failing cases in %, both sites faulted</caption><thead><tr><td>",
    );
    for site in &cases.space.sites {
        put!(out, "<th><span>{}</span>", text(&site.label));
    }
    out.push_str("</tr></thead><tbody>");
    for (a, site) in cases.space.sites.iter().enumerate() {
        put!(out, "<tr><th>{}", text(&site.label));
        for (b, other) in cases.space.sites.iter().enumerate() {
            let (failing, all) = pairs[a * n + b];
            let share = if all == 0 { 0.0 } else { failing as f64 * 100.0 / all as f64 };
            put!(
                out,
                "<td style=\"--p:{share:.0}%\" title=\"{} + {}: {} of {}\">{}",
                text(&site.label),
                text(&other.label),
                count(failing),
                count(all),
                percent(failing, all)
            );
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shop;
    use model::sweep::Case;

    fn drawn(index: usize, take: usize) -> String {
        let (sweep, cases) = shop::sweep();
        space(index, &Cases::of(&sweep.spaces[index], cases.iter().filter(|c| c.space == index).take(take).collect()))
    }

    #[test]
    fn small_spaces_are_cells_with_glyphs() {
        let html = drawn(0, usize::MAX);
        assert_eq!(html.matches("<i class=f>✗</i>").count(), 4 + 1, "four cases and the legend");
        assert!(html.contains("role=grid"));
    }

    #[test]
    fn large_spaces_are_points_with_tables_beside() {
        let html = drawn(2, usize::MAX);
        assert!(html.contains("<svg class=cells") && html.contains("class=matrix") && html.contains("class=sites"));
        assert!(!html.contains("role=grid"));
        assert!(html.len() < 60_000, "{}", html.len());
    }

    #[test]
    fn a_few_picked_cases_are_a_list_without_shares() {
        let html = drawn(2, 40);
        assert!(html.contains("map list") && !html.contains("class=matrix"));
    }

    #[test]
    fn a_large_sample_has_shares_but_no_map() {
        let html = drawn(2, 5_000);
        assert!(html.contains("class=matrix") && !html.contains("class=\"map"));
    }

    #[test]
    fn empty_spaces_say_so() {
        assert!(drawn(0, 0).contains("has no case"));
    }

    #[test]
    fn unknown_cases_have_their_own_glyph() {
        let (sweep, cases) = shop::sweep();
        let mut cases: Vec<Case> = cases.into_iter().filter(|c| c.space == 0).collect();
        cases[3].verdict = model::Verdict::Unknown;
        let html = space(0, &Cases::of(&sweep.spaces[0], cases.iter().collect()));
        assert!(html.contains("<i class=u>?</i> unknown <span class=num>1</span>"));
    }
}
