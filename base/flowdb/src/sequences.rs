//! The recorded windows of an agent: sequence numbers as ranges, written as `1-3600 3605-7200`.

use std::ops::RangeInclusive;

/// Maximum number of ranges, so that lost windows do not grow the agent's row forever. Above it the oldest gap is
/// closed; windows arrive in order, so those in the gap will not arrive anymore.
const RANGES_MAX: usize = 64;

/// A set of numbers as sorted ranges that neither touch nor overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sequences(Vec<RangeInclusive<u64>>);

impl Sequences {
    /// Parses the output of [`Sequences::to_string`]. Invalid ranges are skipped.
    pub fn parse(text: &str) -> Sequences {
        let mut sequences = Sequences::default();
        for range in text.split(' ') {
            let Some((first, last)) = range.split_once('-') else { continue };
            if let (Ok(first), Ok(last)) = (first.parse(), last.parse()) {
                sequences.0.push(first..=last);
            }
        }
        sequences
    }

    /// Adds a number. Returns false if the set already contains it.
    pub fn insert(&mut self, number: u64) -> bool {
        let at = self.0.partition_point(|range| *range.end() < number);
        if self.0.get(at).is_some_and(|range| range.contains(&number)) {
            return false;
        }
        let before = at > 0 && *self.0[at - 1].end() + 1 == number;
        let after = self.0.get(at).is_some_and(|range| number + 1 == *range.start());
        match (before, after) {
            (true, true) => {
                let end = *self.0.remove(at).end();
                self.0[at - 1] = *self.0[at - 1].start()..=end;
            }
            (true, false) => self.0[at - 1] = *self.0[at - 1].start()..=number,
            (false, true) => self.0[at] = number..=*self.0[at].end(),
            (false, false) => self.0.insert(at, number..=number),
        }
        if self.0.len() > RANGES_MAX {
            let second = self.0.remove(1);
            self.0[0] = *self.0[0].start()..=*second.end();
        }
        true
    }
}

impl std::fmt::Display for Sequences {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, range) in self.0.iter().enumerate() {
            let space = if i > 0 { " " } else { "" };
            write!(f, "{space}{}-{}", range.start(), range.end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn the_set_survives_conversion_to_text(numbers in prop::collection::vec(1u64..60, 0..80)) {
            let (mut ranges, mut set) = (Sequences::default(), BTreeSet::new());
            for number in numbers {
                prop_assert_eq!(ranges.insert(number), set.insert(number));
                ranges = Sequences::parse(&ranges.to_string());
            }
            let listed: Vec<u64> = ranges.0.iter().cloned().flatten().collect();
            prop_assert_eq!(listed, set.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn consecutive_numbers_are_one_range_and_gaps_are_bounded() {
        let mut sequences = Sequences::default();
        for number in (1..=3600).chain(3605..=7200) {
            assert!(sequences.insert(number));
        }
        assert_eq!(sequences.to_string(), "1-3600 3605-7200");
        for number in 0..1000 {
            assert!(sequences.insert(10_000 + 2 * number));
        }
        assert_eq!(sequences.0.len(), RANGES_MAX);
        assert!(!sequences.insert(3602), "the oldest gap is closed");
        assert!(!sequences.insert(11_998) && sequences.insert(11_997));
    }
}
