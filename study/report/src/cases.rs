//! The cases of one fault space: their outcomes, their positions in the drawing, and their packed data.
//!
//! A space that holds (nearly) every subset of its sites is laid out like a Karnaugh map: the sites are split into
//! those of the rows and those of the columns, the most influential ones first, and both axes count in Gray code. So
//! neighbors differ in one fault, and cases that fail for one reason form blocks. Other spaces are a plain list.

use crate::escape::shorten;
use crate::redact;
use model::Verdict;
use model::sweep::{Case, Space};
use std::collections::{HashMap, HashSet};

/// Most sites of a map: 2^16 cells.
const MAP_SITES: usize = 16;
/// Packed data above this size is left out of the page; its tables remain.
const MOST_BYTES: usize = 700_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Result {
    Pass,
    Fail,
    Unknown,
    /// Passed without any of its faults being reached.
    Unaffected,
    NotRun,
}

impl Result {
    pub(crate) fn of(case: &Case) -> Result {
        match case.verdict {
            Verdict::Fail => Result::Fail,
            Verdict::Unknown => Result::Unknown,
            Verdict::Pass if case.fired.is_empty() && !case.sites.is_empty() => Result::Unaffected,
            Verdict::Pass => Result::Pass,
        }
    }

    /// Class name in `page.css` and letter in the data block.
    pub(crate) fn letter(self) -> char {
        match self {
            Result::Pass => 'p',
            Result::Fail => 'f',
            Result::Unknown => 'u',
            Result::Unaffected => 'n',
            Result::NotRun => 'o',
        }
    }

    pub(crate) fn glyph(self) -> char {
        match self {
            Result::Pass => '✓',
            Result::Fail => '✗',
            Result::Unknown => '?',
            Result::Unaffected => '·',
            Result::NotRun => ' ',
        }
    }
}

/// The influence of a site on outcomes: failing cases with and without its fault, and how often the fault fired.
#[derive(Clone, Default)]
pub(crate) struct Influence {
    pub cases: u64,
    pub failing: u64,
    pub fired: u64,
    pub cases_without: u64,
    pub failing_without: u64,
}

impl Influence {
    fn weight(&self) -> f64 {
        let share = |part: u64, whole: u64| {
            if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
        };
        (share(self.failing, self.cases) - share(self.failing_without, self.cases_without)).abs()
    }
}

pub(crate) struct Cases<'a> {
    pub space: &'a Space,
    pub influence: Vec<Influence>,
    /// Sites of the rows and of the columns, the outermost first; empty for a list.
    pub row_sites: Vec<usize>,
    pub column_sites: Vec<usize>,
    pub columns: usize,
    /// Row by row; None: the case was not run.
    pub cells: Vec<Option<&'a Case>>,
}

pub(crate) fn gray(i: usize) -> usize {
    i ^ (i >> 1)
}

impl<'a> Cases<'a> {
    pub(crate) fn of(space: &'a Space, mut cases: Vec<&'a Case>) -> Cases<'a> {
        cases.sort_by(|a, b| (a.sites.len(), &a.sites, a.case).cmp(&(b.sites.len(), &b.sites, b.case)));
        let influence = influence(space, &cases);
        let n = space.sites.len();
        let masks: HashMap<usize, &Case> =
            if n <= MAP_SITES { cases.iter().map(|c| (mask(&c.sites, n), *c)).collect() } else { HashMap::new() };
        let is_map = (1..=MAP_SITES).contains(&n) && masks.len() == cases.len() && cases.len() * 2 >= 1 << n;
        if !is_map {
            let columns = cases.len().isqrt().clamp(8, 64);
            return Cases {
                space,
                influence,
                row_sites: Vec::new(),
                column_sites: Vec::new(),
                columns,
                cells: cases.into_iter().map(Some).collect(),
            };
        }
        let mut ranked: Vec<usize> = (0..n).collect();
        ranked.sort_by(|a, b| influence[*b].weight().total_cmp(&influence[*a].weight()).then(a.cmp(b)));
        let column_sites: Vec<usize> = ranked.iter().copied().step_by(2).collect();
        let row_sites: Vec<usize> = ranked.iter().copied().skip(1).step_by(2).collect();
        let columns = 1 << column_sites.len();
        let part = |sites: &[usize], i: usize| {
            sites.iter().rev().enumerate().filter(|(bit, _)| gray(i) >> bit & 1 == 1).fold(0, |m, (_, s)| m | 1 << s)
        };
        let cells = (0..1usize << n)
            .map(|i| masks.get(&(part(&row_sites, i / columns) | part(&column_sites, i % columns))).copied())
            .collect();
        Cases { space, influence, row_sites, column_sites, columns, cells }
    }

    pub(crate) fn is_map(&self) -> bool {
        !self.column_sites.is_empty()
    }

    pub(crate) fn run(&self) -> impl Iterator<Item = &'a Case> {
        self.cells.iter().flatten().copied()
    }

    /// Share of failures among the cases with both sites faulted: (failing, cases); row stride is the number of sites.
    pub(crate) fn pairs(&self) -> Vec<(u64, u64)> {
        let n = self.space.sites.len();
        let mut pairs = vec![(0, 0); n * n];
        for case in self.run() {
            let fails = u64::from(case.verdict == Verdict::Fail);
            for a in &case.sites {
                for b in &case.sites {
                    if let Some(p) = pairs.get_mut(*a as usize * n + *b as usize) {
                        *p = (p.0 + fails, p.1 + 1);
                    }
                }
            }
        }
        pairs
    }

    /// The space for the page's script, cells in drawing order: `v` one letter per cell; `m`, `f` sites and fired
    /// sites, six per character; `t` latency in µs, four characters; `s`, `r`, `p` indices of status, reason and
    /// pattern, one, two and three characters. None if it would be too large.
    pub(crate) fn packed(&self) -> Option<serde_json::Value> {
        let sites = self.space.sites.len();
        let width = sites.div_ceil(6).max(1);
        let reasons: usize = self
            .run()
            .filter_map(|c| c.reason.as_ref())
            .collect::<HashSet<_>>()
            .into_iter()
            .map(|r| r.len().min(120))
            .sum();
        if self.cells.len() * (2 * width + 11) + reasons > MOST_BYTES {
            return None;
        }
        let (mut v, mut m, mut f, mut t, mut s, mut r, mut p) =
            (String::new(), String::new(), String::new(), String::new(), String::new(), String::new(), String::new());
        let (mut statuses, mut reasons, mut patterns) =
            (Dictionary::default(), Dictionary::default(), Dictionary::default());
        for cell in &self.cells {
            v.push(cell.map_or(Result::NotRun, Result::of).letter());
            let (planned, fired) = cell.map_or((&[][..], &[][..]), |c| (&c.sites[..], &c.fired[..]));
            bits(&mut m, planned, width);
            bits(&mut f, fired, width);
            digits(&mut t, cell.map_or(0, |c| c.latency_us), 4);
            digits(
                &mut s,
                statuses
                    .index(cell.map_or(String::new(), |c| c.status.map_or("no reply".to_owned(), |s| s.to_string()))),
                1,
            );
            digits(
                &mut r,
                reasons.index(
                    cell.and_then(|c| c.reason.as_deref()).map_or(String::new(), |r| shorten(&redact::reason(r), 120)),
                ),
                2,
            );
            digits(&mut p, patterns.index(cell.map_or(u64::MAX, |c| c.fingerprint)), 3);
        }
        Some(serde_json::json!({
            "name": self.space.name,
            "sites": self.space.sites.iter().map(|s| &s.label).collect::<Vec<_>>(),
            "faults": self.space.sites.iter().map(|s| s.fault.to_string()).collect::<Vec<_>>(),
            "columns": self.columns, "width": width,
            "v": v, "m": m, "f": f, "t": t, "s": s, "r": r, "p": p,
            "statuses": statuses.entries, "reasons": reasons.entries.iter().take(1 << 12).collect::<Vec<_>>(),
        }))
    }
}

fn mask(sites: &[u32], n: usize) -> usize {
    sites.iter().filter(|s| (**s as usize) < n).fold(0, |m, s| m | 1 << s)
}

fn influence(space: &Space, cases: &[&Case]) -> Vec<Influence> {
    let failing = |cases: &[&Case]| cases.iter().filter(|c| c.verdict == Verdict::Fail).count() as u64;
    let (all, all_failing) = (cases.len() as u64, failing(cases));
    let mut of = vec![Influence::default(); space.sites.len()];
    for case in cases {
        for site in case.sites.iter().copied().collect::<HashSet<u32>>() {
            if let Some(i) = of.get_mut(site as usize) {
                i.cases += 1;
                i.failing += u64::from(case.verdict == Verdict::Fail);
                i.fired += u64::from(case.fired.contains(&site));
            }
        }
    }
    for i in &mut of {
        i.cases_without = all - i.cases;
        i.failing_without = all_failing - i.failing;
    }
    of
}

/// Numbers values in order of appearance.
struct Dictionary<T> {
    entries: Vec<T>,
    index: HashMap<T, usize>,
}

impl<T> Default for Dictionary<T> {
    fn default() -> Self {
        Dictionary { entries: Vec::new(), index: HashMap::new() }
    }
}

impl<T: Clone + Eq + std::hash::Hash> Dictionary<T> {
    fn index(&mut self, value: T) -> u64 {
        let next = self.entries.len();
        let at = *self.index.entry(value.clone()).or_insert(next);
        if at == next {
            self.entries.push(value);
        }
        at as u64
    }
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// `width` characters, the least significant one first. A value that is too large becomes the largest one.
fn digits(out: &mut String, value: u64, width: usize) {
    let value = value.min((1 << (6 * width)) - 1);
    out.extend((0..width).map(|i| ALPHABET[(value >> (6 * i) & 63) as usize] as char));
}

fn bits(out: &mut String, sites: &[u32], width: usize) {
    let mut six = vec![0u8; width];
    for s in sites {
        if let Some(digit) = six.get_mut(*s as usize / 6) {
            *digit |= 1 << (s % 6);
        }
    }
    out.extend(six.into_iter().map(|d| ALPHABET[d as usize] as char));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shop;

    fn cases_of(index: usize, check: impl Fn(&Cases)) {
        let (sweep, cases) = shop::sweep();
        check(&Cases::of(&sweep.spaces[index], cases.iter().filter(|c| c.space == index).collect()));
    }

    #[test]
    fn neighbors_in_a_map_differ_in_one_fault() {
        cases_of(1, |c| {
            assert_eq!((c.columns, c.cells.len()), (32, 512));
            for row in c.cells.chunks(32) {
                for pair in row.windows(2) {
                    let [a, b] = [pair[0].unwrap(), pair[1].unwrap()].map(|c| mask(&c.sites, 9));
                    assert_eq!((a ^ b).count_ones(), 1);
                }
            }
        });
    }

    #[test]
    fn failures_of_one_reason_form_one_block() {
        cases_of(1, |c| {
            let fails = |i: &usize| c.cells[*i].unwrap().verdict == Verdict::Fail;
            let failing: Vec<usize> = (0..512).filter(fails).collect();
            assert_eq!(failing.len(), 128);
            assert!(failing.iter().all(|i| i / 32 >= 8 && i % 32 >= 16), "the last quarter");
        });
    }

    #[test]
    fn influence_separates_relevant_sites_from_others() {
        cases_of(1, |c| {
            assert_eq!((c.influence[0].failing, c.influence[0].failing_without), (128, 0));
            assert_eq!((c.influence[8].failing, c.influence[8].failing_without, c.influence[8].fired), (64, 64, 0));
        });
    }

    #[test]
    fn digits_and_bits_are_packed_lowest_first() {
        let mut out = String::new();
        digits(&mut out, 1 + 64 * 2, 4);
        bits(&mut out, &[0, 7], 2);
        digits(&mut out, u64::MAX, 2);
        assert_eq!(out, "BCAABC__");
    }

    #[test]
    fn an_incomplete_space_keeps_its_map_and_its_holes() {
        let (sweep, cases) = shop::sweep();
        let some: Vec<&Case> = cases.iter().filter(|c| c.space == 0 && c.case != 5).collect();
        let cases = Cases::of(&sweep.spaces[0], some);
        assert!(cases.is_map());
        assert_eq!(cases.cells.iter().filter(|c| c.is_none()).count(), 1);
    }

    #[test]
    fn a_sparse_or_empty_space_is_a_list() {
        let (sweep, cases) = shop::sweep();
        assert!(!Cases::of(&sweep.spaces[2], cases.iter().filter(|c| c.space == 2).take(31).collect()).is_map());
        assert_eq!(Cases::of(&sweep.spaces[2], Vec::new()).cells.len(), 0);
    }
}
