//! Detection latency: the number of messages between a flip and the first wrong one.

use crate::escape::{put, text};
use crate::words::{count, counted};
use model::campaign::{Campaign, percent};

/// None if it is unknown for all errors.
pub(crate) fn table(campaign: &Campaign) -> Option<String> {
    if campaign.variants.iter().all(|v| v.latency.is_empty()) {
        return None;
    }
    let mut out = String::from(
        "<p class=sum>The number of messages that the program wrote between the flip and the first wrong one, on all connections, or until it ended if none was written. Data in a buffer at the time of the flip counts as written after it.</p><div class=scroll><table class=sei><thead><tr><th><th>Program<th>Errors<th class=num>Number<th class=num>None between<th class=num>Median<th class=num>p90<th class=num>Maximum</tr></thead><tbody>",
    );
    for v in &campaign.variants {
        let mut last = "";
        for l in &v.latency {
            let group = l.group.as_str();
            put!(
                out,
                "<tr><th>{}<td>{}<td>{}<td class=num>{}<td class=num>{} %<td class=num>{}<td class=num>{}<td class=num>{}</tr>",
                if group == last { "" } else { group },
                text(&v.name),
                if l.undetected { "undetected" } else { "detected" },
                count(l.errors),
                percent(l.at_once as f64 / l.errors.max(1) as f64),
                count(l.median),
                count(l.p90),
                count(l.max)
            );
            last = group;
        }
    }
    out.push_str("</tbody></table></div>");
    Some(out)
}

/// Appended to the position of a wrong reply.
pub(crate) fn words(replies_since: Option<u64>) -> String {
    match replies_since {
        None => String::new(),
        Some(0) => ", the next one after the flip".to_owned(),
        Some(n) => format!(", with {} between it and the flip", counted(n, "other")),
    }
}
