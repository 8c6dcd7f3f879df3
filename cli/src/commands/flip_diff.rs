//! `faultloom diff` of two campaigns: injection by injection if they flipped the same bits of the same program, else by their shares.

use crate::commands::flip::spec_of;
use crate::commands::show::read_campaign;
use crate::context::Context;
use app::text::{grouped, printable};
use campaign::log::INJECTIONS;
use model::campaign::{Campaign, Logged, Row, Share, percent};
use model::flip::Outcome;
use model::{Exit, Failure, Run};
use runs::Store;
use serde_json::{Value, json};
use std::collections::HashMap;

/// Differing injections that are named.
const NAMED: usize = 20;

pub fn campaigns(context: &Context, store: &Store, before: &Run, after: &Run) -> Result<Exit, Failure> {
    let (one, two) = (spec_of(before)?, spec_of(after)?);
    let files =
        |spec: &campaign::Spec| spec.variants.iter().map(|v| (v.name.clone(), v.files.clone())).collect::<Vec<_>>();
    let results =
        (read_campaign(context, before, &store.dir(before.id))?, read_campaign(context, after, &store.dir(after.id))?);
    let differences =
        if (&one.draw, files(&one)) == (&two.draw, files(&two)) && one.external.is_none() && one.live.is_none() {
            one_by_one(context, store, before, after)?
        } else {
            by_shares(context, &results.0, &results.1)
        };
    Ok(if differences == 0 { Exit::Pass } else { Exit::Fail })
}

fn one_by_one(context: &Context, store: &Store, before: &Run, after: &Run) -> Result<usize, Failure> {
    let mut first: HashMap<(u32, u32), Option<Outcome>> = HashMap::new();
    store.dir(before.id).each_record(INJECTIONS, |l: Logged| _ = first.insert((l.variant, l.id), l.outcome))?;
    let mut changed: Vec<(u32, u32, Option<Outcome>, Option<Outcome>)> = Vec::new();
    let mut same = 0u64;
    store.dir(after.id).each_record(INJECTIONS, |l: Logged| match first.remove(&(l.variant, l.id)) {
        Some(outcome) if outcome == l.outcome => same += 1,
        outcome => changed.push((l.variant, l.id, outcome.flatten(), l.outcome)),
    })?;
    changed.sort_by_key(|(variant, id, ..)| (*variant, *id));
    let differences = changed.len() + first.len();
    if context.common.json {
        let rows: Vec<Value> =
            changed.iter().map(|(v, id, a, b)| json!({"variant": v, "id": id, "before": a, "after": b})).collect();
        println!("{}", json!({"differences": differences, "same": same, "injections": rows}));
        return Ok(differences);
    }
    for (_, id, a, b) in changed.iter().take(NAMED) {
        println!("≠ {id:<10} {} → {}", word(*a), word(*b));
    }
    if changed.len() > NAMED {
        println!("… and {} more", changed.len() - NAMED);
    }
    println!("{differences} different, {} the same, injection by injection", grouped(same));
    Ok(differences)
}

fn word(outcome: Option<Outcome>) -> &'static str {
    match outcome {
        None => "not there",
        Some(Outcome::None) => "no effect",
        Some(Outcome::Undetected) => "undetected",
        Some(Outcome::Hardening) => "hardening",
        Some(Outcome::Otherwise) => "otherwise",
    }
}

/// Rows of equal names whose intervals of undetected errors do not meet.
fn by_shares(context: &Context, before: &Campaign, after: &Campaign) -> usize {
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
    if context.common.json {
        let rows: Vec<Value> = pairs
            .iter()
            .map(|(name, a, b)| json!({"row": name, "differs": apart(a, b), "before": a.undetected, "after": b.undetected}))
            .collect();
        println!("{}", json!({"differences": differences, "rows": rows}));
        return differences;
    }
    println!("  of the errors undetected (95 % intervals)");
    let text = |share: Option<Share>| {
        share.map_or_else(
            || "–".to_owned(),
            |s| format!("{} [{}, {}] %", percent(s.share), percent(s.low), percent(s.high)),
        )
    };
    for (name, a, b) in &pairs {
        let mark = if apart(a, b) { '≠' } else { ' ' };
        println!("{mark} {:<24} {:>24} → {}", printable(name), text(a.undetected), text(b.undetected));
    }
    println!("{differences} of {} rows differ beyond their intervals", pairs.len());
    differences
}
