//! Two campaigns compared: injection by injection if they flipped the same bits of the same program, else by their
//! shares.

use super::{results, spec_of};
use crate::Context;
use crate::kind::{Difference, StoredRun};
use crate::text::grouped;
use crate::view::{Block, Change, Mark, View};
use ::campaign::log::INJECTIONS;
use model::Failure;
use model::campaign::{Campaign, Logged, Row, Share, percent};
use model::flip::Outcome;
use serde_json::{Value, json};
use std::collections::HashMap;

/// Differing injections that are listed.
const LISTED_MAX: usize = 20;

pub fn diff(context: &Context, before: &StoredRun, after: &StoredRun) -> Result<Difference, Failure> {
    let (one, two) = (spec_of(&before.run)?, spec_of(&after.run)?);
    let files =
        |spec: &campaign::Spec| spec.variants.iter().map(|v| (v.name.clone(), v.files.clone())).collect::<Vec<_>>();
    let results = (results(context, before)?, results(context, after)?);
    let same_flips = (&one.draw, files(&one)) == (&two.draw, files(&two));
    if same_flips && one.external.is_none() && one.live.is_none() {
        by_injection(before, after)
    } else {
        Ok(by_share(&results.0, &results.1))
    }
}

fn by_injection(before: &StoredRun, after: &StoredRun) -> Result<Difference, Failure> {
    let mut first: HashMap<(u32, u32), Option<Outcome>> = HashMap::new();
    before.dir.each_record(INJECTIONS, |l: Logged| _ = first.insert((l.variant, l.id), l.outcome))?;
    let mut changed: Vec<(u32, u32, Option<Outcome>, Option<Outcome>)> = Vec::new();
    let mut same = 0u64;
    after.dir.each_record(INJECTIONS, |l: Logged| match first.remove(&(l.variant, l.id)) {
        Some(outcome) if outcome == l.outcome => same += 1,
        outcome => changed.push((l.variant, l.id, outcome.flatten(), l.outcome)),
    })?;
    changed.sort_by_key(|(variant, id, ..)| (*variant, *id));
    let differences = changed.len() + first.len();
    let rows: Vec<Value> =
        changed.iter().map(|(v, id, a, b)| json!({"variant": v, "id": id, "before": a, "after": b})).collect();
    let listed = changed.iter().take(LISTED_MAX).map(|(_, id, a, b)| Change {
        mark: Mark::Different,
        subject: id.to_string(),
        before: Some(outcome_text(*a).to_owned()),
        after: Some(outcome_text(*b).to_owned()),
        injected: false,
    });
    let mut blocks = vec![Block::Changes(listed.collect())];
    if changed.len() > LISTED_MAX {
        blocks.push(Block::Line(format!("… and {} more", changed.len() - LISTED_MAX)));
    }
    let same_text = grouped(same);
    blocks.push(Block::Line(format!("{differences} different, {same_text} the same, injection by injection")));
    let fields = json!({"differences": differences, "same": same, "injections": rows});
    Ok(Difference { differs: differences > 0, view: View::new(fields, blocks) })
}

fn outcome_text(outcome: Option<Outcome>) -> &'static str {
    match outcome {
        None => "not there",
        Some(Outcome::None) => "no effect",
        Some(Outcome::Undetected) => "undetected",
        Some(Outcome::Hardening) => "hardening",
        Some(Outcome::Otherwise) => "otherwise",
    }
}

/// Rows of equal names whose intervals of undetected errors do not overlap.
fn by_share(before: &Campaign, after: &Campaign) -> Difference {
    let rows = |campaign: &Campaign| -> Vec<(String, Row)> {
        let several = campaign.variants.len() > 1;
        let of = |name: &str| if several { format!("{name} ") } else { String::new() };
        campaign.variants.iter().flat_map(|v| v.rows.iter().map(move |r| (of(&v.name) + &r.name, r.clone()))).collect()
    };
    let (before, after) = (rows(before), rows(after));
    let pairs: Vec<(&String, &Row, &Row)> = before
        .iter()
        .filter_map(|(name, row)| after.iter().find(|(other, _)| other == name).map(|(_, other)| (name, row, other)))
        .collect();
    let apart = |a: &Row, b: &Row| match (a.undetected, b.undetected) {
        (Some(a), Some(b)) => a.high < b.low || b.high < a.low,
        _ => false,
    };
    let differences = pairs.iter().filter(|(_, a, b)| apart(a, b)).count();
    let fields: Vec<Value> = pairs
        .iter()
        .map(|(name, a, b)| json!({"row": name, "differs": apart(a, b), "before": a.undetected, "after": b.undetected}))
        .collect();
    let share = |share: Option<Share>| {
        share.map_or_else(
            || "–".to_owned(),
            |s| format!("{} [{}, {}] %", percent(s.share), percent(s.low), percent(s.high)),
        )
    };
    let changes = pairs.iter().map(|(name, a, b)| Change {
        mark: if apart(a, b) { Mark::Different } else { Mark::Same },
        subject: (*name).clone(),
        before: Some(share(a.undetected)),
        after: Some(share(b.undetected)),
        injected: false,
    });
    let blocks = vec![
        Block::Line("  undetected errors, as a share of all errors (95 % intervals)".to_owned()),
        Block::Changes(changes.collect()),
        Block::Line(format!("{differences} of {} rows differ beyond their intervals", pairs.len())),
    ];
    Difference {
        differs: differences > 0,
        view: View::new(json!({"differences": differences, "rows": fields}), blocks),
    }
}
