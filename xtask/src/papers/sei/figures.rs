//! Charts of outcomes by type and by bit.

use super::campaign::{Campaign, Done};
use crate::papers::chart::{Chart, Series};
use model::campaign::Tally;

/// How many bits share a bar.
const BITS: u16 = 4;
/// Only vector registers, which are rare, are wider.
const BITS_MAX: u16 = 64;

/// File names and contents.
pub fn all(all: &[(&Campaign, Done)]) -> Vec<(String, String)> {
    all.iter()
        .flat_map(|(campaign, done)| {
            [
                (format!("{}-types.svg", campaign.name), by_type(campaign, done)),
                (format!("{}-bits.svg", campaign.name), by_bit(campaign, done)),
            ]
        })
        .collect()
}

/// Shares of all flips, in percent.
fn outcomes(tallies: &[Tally]) -> Vec<Series> {
    let outcome = |name: &str, of: fn(&Tally) -> u64| {
        let percent = |t: &Tally| (t.tried() > 0).then(|| 100.0 * of(t) as f64 / t.tried() as f64);
        Series { name: name.to_owned(), values: tallies.iter().map(percent).collect(), published: false }
    };
    let mut series = vec![
        outcome("no effect", |t| t.none + t.inactive),
        outcome("detected otherwise", |t| t.otherwise),
        outcome("undetected", |t| t.undetected),
    ];
    if tallies.iter().any(|t| t.hardening > 0) {
        series.insert(2, outcome("by hardening", |t| t.hardening));
    }
    series
}

fn by_type(campaign: &Campaign, done: &Done) -> String {
    let rows: Vec<_> = done.variant.rows.iter().filter(|row| row.within || row.name == "CF").collect();
    let labels: Vec<String> = rows.iter().map(|row| row.name.clone()).collect();
    let tallies: Vec<Tally> = rows.iter().map(|row| row.tally).collect();
    let title = format!("{}: outcomes of flips by type", campaign.name);
    Chart { title: &title, unit: "% of flips", axis: "type", labels: &labels, series: &outcomes(&tallies) }.stacked()
}

fn by_bit(campaign: &Campaign, done: &Done) -> String {
    let mut tallies = vec![Tally::default(); usize::from(BITS_MAX / BITS)];
    for slice in &done.variant.by_bit {
        let bit: Option<u16> = slice.key.parse().ok();
        if let Some(tally) = bit.and_then(|bit| tallies.get_mut(usize::from(bit / BITS))) {
            tally.add(&slice.tally);
        }
    }
    let labels: Vec<String> = (0..BITS_MAX / BITS).map(|n| format!("{}", n * BITS)).collect();
    let title = format!("{}: outcomes of flips by bit", campaign.name);
    Chart {
        title: &title,
        unit: "% of flips",
        axis: "bit (four together, from the first)",
        labels: &labels,
        series: &outcomes(&tallies),
    }
    .stacked()
}
