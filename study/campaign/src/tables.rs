//! Counts the log of one variant into rows, slices and stories. Uses the log alone.

use crate::statistics;
use model::campaign::{Controls, EXTERNAL, Latency, Logged, Role, Row, Share, Slice, Tally, Variant};
use model::flip::{FlipGroup, FlipType, Outcome};
use std::collections::BTreeMap;

/// How many functions have a line of their own; the rest share one.
const FUNCTIONS: usize = 60;
/// Bits below this belong to the smaller of the two usual policies.
const LOW_BITS: u16 = 32;

type Slices = BTreeMap<(FlipGroup, String), Tally>;

#[derive(Default)]
pub struct Tables {
    types: BTreeMap<FlipType, Tally>,
    low32: BTreeMap<FlipType, Tally>,
    disturbed: Tally,
    controls: Controls,
    refused_calls: u64,
    by_class: Slices,
    by_function: Slices,
    by_bit: Slices,
    /// By group and whether errors were detected: the number of errors for each number of replies between the flip and
    /// the first wrong one.
    latencies: BTreeMap<(FlipGroup, bool), BTreeMap<u64, u64>>,
    stories: BTreeMap<u32, Logged>,
}

impl Tables {
    pub fn add(&mut self, logged: &Logged) {
        self.refused_calls += u64::from(logged.effect.refused_calls);
        match (logged.role, &logged.injection) {
            (Role::Control, _) | (Role::Flip, None) => {
                self.controls.run += 1;
                self.controls.deviating += u64::from(logged.outcome != Some(Outcome::None));
                return;
            }
            (Role::Disturbed, _) => self.disturbed.count(logged),
            (Role::Flip, Some(injection)) => {
                self.types.entry(injection.kind).or_default().count(logged);
                if injection.bit < LOW_BITS {
                    self.low32.entry(injection.kind).or_default().count(logged);
                }
                let group = injection.kind.group();
                let slice = |slices: &mut Slices, key: String| slices.entry((group, key)).or_default().count(logged);
                slice(&mut self.by_class, injection.class.clone());
                slice(&mut self.by_function, function(injection));
                slice(&mut self.by_bit, injection.bit.to_string());
                let replies = logged.deviation.as_ref().and_then(|deviation| deviation.replies_since);
                let error = logged.outcome.filter(|outcome| outcome.manifested() && logged.effect.activated);
                if let (Some(replies), Some(outcome)) = (replies, error) {
                    let of = (injection.kind.group(), outcome != Outcome::Undetected);
                    *self.latencies.entry(of).or_default().entry(replies).or_default() += 1;
                }
            }
        }
        if logged.effect.activated && logged.outcome == Some(Outcome::Undetected) {
            self.stories.insert(logged.id, logged.clone());
            if self.stories.len() > Variant::STORIES {
                self.stories.pop_last();
            }
        }
    }

    pub fn tally(&self) -> Tally {
        let mut all = self.disturbed;
        self.types.values().for_each(|tally| all.add(tally));
        all
    }

    pub fn of_type(&self, kind: FlipType) -> Tally {
        self.types.get(&kind).copied().unwrap_or_default()
    }

    pub fn controls(&self) -> &Controls {
        &self.controls
    }

    /// Writes the counts to `variant`.
    pub fn fill(&self, variant: &mut Variant) {
        variant.tally = self.tally();
        variant.rows = rows(&self.types);
        if self.disturbed.tried() > 0 {
            variant.rows.push(row(EXTERNAL, false, &self.disturbed));
        }
        let all_low = self.types == self.low32;
        variant.low32 = if all_low { Vec::new() } else { rows(&self.low32) };
        variant.controls = Controls { planned: variant.controls.planned, ..self.controls.clone() };
        variant.refused_calls = self.refused_calls;
        variant.by_class = slices(&self.by_class);
        variant.by_function = most(slices(&self.by_function));
        variant.by_bit = slices(&self.by_bit);
        variant.by_bit.sort_by_key(|slice| (slice.group, slice.key.parse::<u16>().unwrap_or(u16::MAX)));
        variant.latency =
            self.latencies.iter().map(|((group, noticed), counts)| latency(*group, !noticed, counts)).collect();
        variant.stories = self.stories.values().cloned().collect();
    }
}

/// `counts` has errors by their replies, and at least one.
fn latency(group: FlipGroup, undetected: bool, counts: &BTreeMap<u64, u64>) -> Latency {
    let errors: u64 = counts.values().sum();
    // the smallest latency that at least `rank` errors do not exceed
    let rank = |rank: u64| {
        let mut below = 0;
        let found = counts.iter().find(|(_, count)| {
            below += **count;
            below >= rank
        });
        found.map_or(0, |(replies, _)| *replies)
    };
    Latency {
        group,
        undetected,
        errors,
        at_once: counts.get(&0).copied().unwrap_or(0),
        median: rank(errors.div_ceil(2)),
        p90: rank((errors * 9).div_ceil(10)),
        max: rank(errors),
    }
}

/// The function of an injection, or else its module, as users name it.
fn function(injection: &model::flip::Injection) -> String {
    match (&injection.symbol, injection.module.as_str()) {
        (Some(symbol), _) => symbol.clone(),
        (None, "") => "(no name)".to_owned(),
        (None, module) => format!("({module})"),
    }
}

/// Each group, then its types if there are several.
fn rows(types: &BTreeMap<FlipType, Tally>) -> Vec<Row> {
    let mut groups: BTreeMap<FlipGroup, Vec<(FlipType, &Tally)>> = BTreeMap::new();
    types.iter().for_each(|(kind, tally)| groups.entry(kind.group()).or_default().push((*kind, tally)));
    let mut rows = Vec::new();
    for (group, members) in groups {
        let mut sum = Tally::default();
        members.iter().for_each(|(_, tally)| sum.add(tally));
        rows.push(row(group.as_str(), false, &sum));
        if !matches!(group, FlipGroup::Cf | FlipGroup::Text | FlipGroup::Asc) {
            rows.extend(members.iter().map(|(kind, tally)| row(kind.as_str(), true, tally)));
        }
    }
    rows
}

fn row(name: &str, within: bool, tally: &Tally) -> Row {
    let share = |count: u64| -> Option<Share> { statistics::share(count, tally.manifested()) };
    Row {
        name: name.to_owned(),
        within,
        tally: *tally,
        undetected: share(tally.undetected),
        hardening: share(tally.hardening),
        otherwise: share(tally.otherwise),
    }
}

fn slices(slices: &Slices) -> Vec<Slice> {
    slices.iter().map(|((group, key), tally)| Slice { group: *group, key: key.clone(), tally: *tally }).collect()
}

/// The functions with the most injections; the rest of a group share one line.
fn most(mut slices: Vec<Slice>) -> Vec<Slice> {
    let mut by_key: BTreeMap<&str, u64> = BTreeMap::new();
    slices.iter().for_each(|slice| *by_key.entry(slice.key.as_str()).or_default() += slice.tally.tried());
    let mut keys: Vec<(&str, u64)> = by_key.into_iter().collect();
    keys.sort_by_key(|(key, tried)| (std::cmp::Reverse(*tried), *key));
    let largest: Vec<String> = keys.iter().take(FUNCTIONS).map(|(key, _)| (*key).to_owned()).collect();
    let mut others = Slices::new();
    slices.retain(|slice| {
        let keep = largest.contains(&slice.key);
        if !keep {
            others.entry((slice.group, "(others)".to_owned())).or_default().add(&slice.tally);
        }
        keep
    });
    slices.sort_by_key(|slice| (slice.group, largest.iter().position(|key| *key == slice.key)));
    slices.extend(self::slices(&others));
    slices
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{flip, logged};

    #[test]
    fn groups_are_the_sums_of_their_types() {
        let mut tables = Tables::default();
        let kinds = [FlipType::Cf, FlipType::Wreg, FlipType::Wval, FlipType::Rreg, FlipType::Rreg];
        for (id, kind) in kinds.into_iter().enumerate() {
            tables.add(&logged(id as u32, Some(flip(id as u32, kind, id as u16 * 16)), Some(Outcome::Otherwise)));
        }
        tables.add(&logged(9, Some(flip(9, FlipType::Wval, 3)), Some(Outcome::Undetected)));
        let mut variant = Variant::default();
        tables.fill(&mut variant);
        let rows: Vec<_> = variant.rows.iter().map(|r| (r.name.as_str(), r.within, r.tally.manifested())).collect();
        let expected = [
            ("CF", false, 1),
            ("DF", false, 3),
            ("WREG", true, 1),
            ("WVAL", true, 2),
            ("RD", false, 2),
            ("RREG", true, 2),
        ];
        assert_eq!(rows, expected);
        assert_eq!(variant.tally.manifested(), 6, "a group is not counted twice");
        assert_eq!(variant.rows[1].undetected.unwrap().share, 1.0 / 3.0);
        let low: u64 = variant.low32.iter().filter(|r| !r.within).map(|r| r.tally.tried()).sum();
        assert_eq!(low, 3, "bits 0, 16 and 3");
        assert_eq!(variant.stories.iter().map(|s| s.id).collect::<Vec<_>>(), [9]);
    }

    #[test]
    fn a_flip_that_was_not_made_has_no_outcome() {
        let mut tables = Tables::default();
        let mut idle = logged(0, Some(flip(0, FlipType::Cf, 0)), Some(Outcome::None));
        idle.effect.activated = false;
        tables.add(&idle);
        tables.add(&logged(1, Some(flip(1, FlipType::Cf, 0)), None));
        let tally = tables.tally();
        assert_eq!((tally.none, tally.inactive, tally.unjudged, tally.manifested(), tally.tried()), (0, 1, 1, 0, 2));
    }

    #[test]
    fn controls_are_counted_apart() {
        let mut tables = Tables::default();
        for (id, outcome) in [(0, Outcome::None), (1, Outcome::Otherwise)] {
            let control = Logged { role: Role::Control, ..logged(id, None, Some(outcome)) };
            tables.add(&control);
        }
        assert_eq!((tables.controls().run, tables.controls().deviating, tables.tally().tried()), (2, 1, 0));
    }

    #[test]
    fn rare_functions_are_one_line() {
        let mut tables = Tables::default();
        for id in 0..200u32 {
            let mut injection = flip(id, FlipType::Wreg, 0);
            injection.symbol = Some(format!("f{}", if id < 100 { 0 } else { id }));
            tables.add(&logged(id, Some(injection), Some(Outcome::None)));
        }
        let mut variant = Variant::default();
        tables.fill(&mut variant);
        assert_eq!(variant.by_function.len(), FUNCTIONS + 1);
        assert_eq!((variant.by_function[0].key.as_str(), variant.by_function[0].tally.none), ("f0", 100));
        assert_eq!(variant.by_function.iter().map(|s| s.tally.tried()).sum::<u64>(), 200);
    }
}
