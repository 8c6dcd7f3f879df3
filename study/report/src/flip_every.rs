//! Exhaustive campaigns: exact shares over all flips in the work for one reply, compared with the sampled ones.

use crate::escape::{put, text};
use crate::flip_tables::{LEGEND, line, meter};
use crate::words::{count, counted};
use model::campaign::{Campaign, Exact, Exhaustive, ExhaustiveKind, Tally, percent};

/// None if the campaign was not exhaustive.
pub(crate) fn all(campaign: &Campaign) -> Option<String> {
    let several = campaign.variants.len() > 1;
    let mut out = String::from(
        "<p class=sum>Shares here are of all flips, not of the errors. A correct sample agrees with them; the verdict is unknown if its 99.9 % interval excludes one.</p>",
    );
    let mut any = false;
    for v in &campaign.variants {
        let Some(every) = &v.exhaustive else { continue };
        any = true;
        if several {
            put!(out, "<h3>{}</h3>", text(&v.name));
        }
        let flips: u64 = every.kinds.iter().map(|kind| kind.flips).sum();
        put!(
            out,
            "<p>In the work for reply {}: <strong>{}</strong>, of which {} of {} were tried.</p>",
            every.reply,
            counted(flips, "flip"),
            count(every.tried),
            if every.classes == 1 { "1 class".to_owned() } else { format!("{} classes", count(every.classes)) }
        );
        out.push_str(&bars(every));
        out.push_str(&table(every));
    }
    any.then_some(out)
}

/// Two bars per type: all flips, and the sampled ones.
fn bars(every: &Exhaustive) -> String {
    let mut out = String::from("<div class=\"flipbars every\">");
    for kind in &every.kinds {
        put!(out, "<div><b>{}</b>{}", kind.kind, exact(&kind.exact));
        put!(out, "<span class=muted>{}</span></div>", count(kind.flips));
        if kind.drawn.tried() > 0 {
            put!(out, "<div class=drawn><b>sampled</b>{}", meter(&kind.drawn));
            put!(out, "<span class=muted>{}</span></div>", count(kind.drawn.tried()));
        }
    }
    out.push_str("</div>");
    out.push_str(LEGEND);
    out
}

fn exact(e: &Exact) -> String {
    let label = format!(
        "{} % without effect, {} % undetected, {} % detected by hardening, {} % detected otherwise",
        percent(e.none),
        percent(e.undetected),
        percent(e.hardening),
        percent(e.otherwise)
    );
    // flex items whose factors add up to less than 1 do not fill the line
    let parts = [e.undetected, e.hardening, e.otherwise, e.none, e.unknown];
    line(&label, parts.map(|share| (share * 1000.0, format!("{} %", percent(share)))))
}

fn table(every: &Exhaustive) -> String {
    let mut out = String::from(
        "<div class=scroll><table class=sei><caption>Exact shares, and those of the sample in brackets</caption><thead><tr><th><th class=num>Flips<th class=num>Not run<th class=num>No effect<th class=num>Undetected<th class=num>By hardening<th class=num>Crash, hang or error<th class=num>Not flipped<th class=num>Sampled<th>Agree</tr></thead><tbody>",
    );
    for kind in &every.kinds {
        let ExhaustiveKind { exact, drawn, .. } = kind;
        put!(out, "<tr><th>{}<td class=num>{}<td class=num>{}", kind.kind, count(kind.flips), count(kind.idle));
        for (share, seen) in [
            (exact.none, drawn.none),
            (exact.undetected, drawn.undetected),
            (exact.hardening, drawn.hardening),
            (exact.otherwise, drawn.otherwise),
            (exact.unknown, drawn.inactive + drawn.unjudged),
        ] {
            put!(out, "<td class=num>{} % <small class=muted>({})</small>", percent(share), of_sample(seen, drawn));
        }
        let agrees = if kind.agrees { "<td>✓ yes" } else { "<td class=ko>✗ no" };
        put!(out, "<td class=num>{}{}</tr>", count(drawn.tried()), agrees);
    }
    out.push_str("</tbody></table></div>");
    out
}

fn of_sample(seen: u64, drawn: &Tally) -> String {
    match drawn.tried() {
        0 => "–".to_owned(),
        of => percent(seen as f64 / of as f64),
    }
}
