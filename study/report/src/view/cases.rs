//! All cases of a space as columns, for the map of cases and for questions about all of them.

use super::column::{U32Column, saturating_u32};
use model::sweep::{Case, Space};
use schemars::JsonSchema;
use serde::Serialize;

/// One row per case that was run, in ascending order of its number.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct CaseColumns {
    /// Index of the space.
    pub space: u32,
    pub rows: u32,
    /// Number of the case within its space.
    pub case: U32Column,
    /// Index into the behaviors of the view.
    pub behavior: U32Column,
    pub latency_us: U32Column,
    /// Words of 32 sites per case: bit i of word i / 32 is set if site i was planned.
    pub words: u32,
    pub planned: U32Column,
    /// Likewise, if its fault fired.
    pub fired: U32Column,
    /// Columns of the behavior table, one per site of the space.
    pub columns: Vec<u32>,
}

impl CaseColumns {
    /// `of_case`: the behavior of each of `cases`. `columns`: the column of each site.
    pub(super) fn of(index: usize, space: &Space, cases: &[Case], of_case: &[u32], columns: Vec<u32>) -> CaseColumns {
        let mut all: Vec<(&Case, u32)> =
            cases.iter().zip(of_case.iter().copied()).filter(|(case, _)| case.space == index).collect();
        all.sort_by_key(|(case, _)| case.case);
        let words = space.sites.len().div_ceil(32).max(1);
        let mut view = CaseColumns {
            space: saturating_u32(index as u64),
            rows: saturating_u32(all.len() as u64),
            words: saturating_u32(words as u64),
            columns,
            ..CaseColumns::default()
        };
        for (case, behavior) in all {
            view.case.0.push(saturating_u32(case.case));
            view.behavior.0.push(behavior);
            view.latency_us.0.push(saturating_u32(case.latency_us));
            put_bits(&mut view.planned.0, &case.sites, words);
            put_bits(&mut view.fired.0, &case.fired, words);
        }
        view
    }
}

fn put_bits(out: &mut Vec<u32>, sites: &[u32], words: usize) {
    let begin = out.len();
    out.resize(begin + words, 0);
    for site in sites {
        if let Some(word) = out[begin..].get_mut(*site as usize / 32) {
            *word |= 1 << (site % 32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shop;

    #[test]
    fn bits_name_the_sites_of_a_case() {
        let (sweep, cases) = shop::sweep();
        let of_case = vec![0; cases.len()];
        let view = CaseColumns::of(2, &sweep.spaces[2], &cases, &of_case, Vec::new());
        assert_eq!(u64::from(view.rows), sweep.spaces[2].cases);
        assert!(view.case.0.is_sorted());
        for case in cases.iter().filter(|case| case.space == 2).take(300) {
            let row = view.case.0.binary_search(&(case.case as u32)).unwrap();
            let sites: Vec<u32> = (0..32).filter(|bit| view.planned.0[row] >> bit & 1 == 1).collect();
            assert_eq!(sites, case.sites);
        }
    }

    #[test]
    fn more_than_32_sites_take_several_words() {
        let mut out = Vec::new();
        put_bits(&mut out, &[0, 33, 64, 99], 3);
        assert_eq!(out, [1, 2, 1]);
    }
}
