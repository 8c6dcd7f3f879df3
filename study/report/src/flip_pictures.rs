//! Charts of outcomes by instruction class, function and bit. The tables below have the same content.

use crate::escape::{put, shorten, text};
use crate::flip_tables::meter;
use crate::words::count;
use model::campaign::{Campaign, Slice, Tally, Variant};
use model::flip::FlipGroup;

/// Functions in the chart; the table has all.
const FUNCTIONS: usize = 24;
const BIT_WIDTH: f64 = 9.0;
const HEIGHT: f64 = 92.0;
/// Space for the labels of the axes: half a line above, the longest label at the left.
const TOP: f64 = 8.0;
const LEFT: f64 = 42.0;
/// Bits of a general register. Higher bits, of vectors, share one column.
const BITS: u16 = 64;

pub(crate) fn all(campaign: &Campaign) -> String {
    let mut out = String::new();
    for v in &campaign.variants {
        if campaign.variants.len() > 1 {
            put!(out, "<h3>{}</h3>", text(&v.name));
        }
        out.push_str("<h4>By bit <small>from the lowest; each column has all flips of that bit</small></h4>");
        out.push_str(&bits(v));
        put!(out, "<div class=pair><div><h4>By class of instruction</h4>{}</div>", lines(&v.by_class, usize::MAX));
        put!(
            out,
            "<div><h4>By function <small>most flips first</small></h4>{}</div></div>",
            lines(&v.by_function, FUNCTIONS)
        );
        out.push_str(&table(v));
    }
    out
}

fn groups(slices: &[Slice]) -> Vec<FlipGroup> {
    let mut groups: Vec<FlipGroup> = slices.iter().map(|s| s.group).collect();
    groups.sort_unstable();
    groups.dedup();
    groups
}

/// One chart per group: a column per bit, whose parts are the shares of outcomes.
fn bits(v: &Variant) -> String {
    let mut out = String::from("<div class=flipbits>");
    for group in groups(&v.by_bit) {
        let mut columns: Vec<(String, Tally)> = Vec::new();
        let mut beyond = Tally::default();
        for slice in v.by_bit.iter().filter(|s| s.group == group) {
            match slice.key.parse::<u16>() {
                Ok(bit) if bit < BITS => columns.push((slice.key.clone(), slice.tally)),
                _ => beyond.add(&slice.tally),
            }
        }
        let mut at: Vec<(f64, String, Tally)> =
            columns.into_iter().map(|(key, t)| (key.parse::<f64>().unwrap_or(0.0), format!("bit {key}"), t)).collect();
        if beyond.tried() > 0 {
            at.push((f64::from(BITS) + 1.5, "bits from 64 on".to_owned(), beyond));
        }
        let width = (f64::from(BITS) + 3.0) * BIT_WIDTH + LEFT;
        put!(
            out,
            "<figure><figcaption>{}</figcaption><div class=scroll><svg class=bits role=img aria-label=\"Outcomes of {} by bit; the table below has the same content\" viewBox=\"0 0 {width:.0} {:.0}\" width=\"{width:.0}\" height=\"{:.0}\">",
            group.as_str(),
            group.as_str(),
            TOP + HEIGHT + 17.0,
            TOP + HEIGHT + 17.0
        );
        for (part, label) in [(0.0, "100 %"), (0.5, "50"), (1.0, "0")] {
            let y = TOP + part * HEIGHT;
            put!(
                out,
                "<path class=rule d=\"M{:.0} {y:.1}H{width:.0}\"/><text x={:.0} y={:.1} text-anchor=end>{label}</text>",
                LEFT - 2.0,
                LEFT - 6.0,
                y + 3.5
            );
        }
        for (column, words, tally) in &at {
            out.push_str(&stack(LEFT + column * BIT_WIDTH, words, tally));
        }
        for bit in (0..=BITS).step_by(8) {
            let words = if bit == BITS { "64+".to_owned() } else { bit.to_string() };
            let x = LEFT + (f64::from(bit) + if bit == BITS { 2.0 } else { 0.5 }) * BIT_WIDTH;
            put!(out, "<text x={x:.1} y={:.1} text-anchor=middle>{words}</text>", TOP + HEIGHT + 13.0);
        }
        out.push_str("</svg></div></figure>");
    }
    out.push_str("</div>");
    out
}

fn stack(x: f64, words: &str, t: &Tally) -> String {
    let total = t.tried().max(1) as f64;
    let mut out = String::new();
    put!(
        out,
        "<g><title>{words}: {} of {} undetected, {} by hardening, {} otherwise, {} without effect</title>",
        t.undetected,
        t.tried(),
        t.hardening,
        t.otherwise,
        t.none
    );
    let mut bottom = TOP + HEIGHT;
    for (class, n) in
        [("f", t.undetected), ("p", t.hardening), ("o2", t.otherwise), ("n", t.none), ("u", t.inactive + t.unjudged)]
    {
        if n > 0 {
            let height = HEIGHT * n as f64 / total;
            bottom -= height;
            put!(out, "<rect class={class} x={x:.1} y={bottom:.2} width={:.1} height={height:.2} />", BIT_WIDTH - 1.0);
        }
    }
    out.push_str("</g>");
    out
}

/// A line per key over all groups, those with the most flips first.
fn lines(slices: &[Slice], most: usize) -> String {
    let mut keys: Vec<(&str, Tally)> = Vec::new();
    for slice in slices {
        match keys.iter_mut().find(|(key, _)| *key == slice.key) {
            Some((_, tally)) => tally.add(&slice.tally),
            None => keys.push((&slice.key, slice.tally)),
        }
    }
    keys.sort_by_key(|(_, tally)| std::cmp::Reverse(tally.tried()));
    let mut out = String::from("<div class=flipbars>");
    for (key, tally) in keys.iter().take(most) {
        put!(
            out,
            "<div><b title=\"{}\">{}</b>{}<span class=muted>{}</span></div>",
            text(key),
            text(&shorten(key, 28)),
            meter(tally),
            count(tally.tried())
        );
    }
    out.push_str("</div>");
    if keys.len() > most {
        put!(out, "<p class=note>{} more are in the table.</p>", count((keys.len() - most) as u64));
    }
    out
}

fn table(v: &Variant) -> String {
    let mut out = String::from(
        "<details class=twin><summary>As a table</summary><div class=scroll><table><thead><tr><th>Group<th>What<th class=num>Flips<th class=num>No effect<th class=num>Undetected<th class=num>Hardening<th class=num>Otherwise</tr></thead><tbody>",
    );
    for (what, slices) in [("class", &v.by_class), ("function", &v.by_function), ("bit", &v.by_bit)] {
        for s in slices {
            let t = &s.tally;
            put!(
                out,
                "<tr><td>{}<td>{what} {}<td class=num>{}<td class=num>{}<td class=num>{}<td class=num>{}<td class=num>{}</tr>",
                s.group.as_str(),
                text(&s.key),
                count(t.tried()),
                count(t.none),
                count(t.undetected),
                count(t.hardening),
                count(t.otherwise)
            );
        }
    }
    out.push_str("</tbody></table></div></details>");
    out
}
