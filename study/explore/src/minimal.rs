//! Minimal failing sets: failing sets of sites without a failing proper subset.

use model::Verdict;
use model::sweep::Case;
use std::collections::BTreeSet;

/// Sets of faults that fired; a fault that was planned but never reached is not part of a cause. Smallest first, then
/// by site.
pub fn failing_sets<'a>(cases: impl Iterator<Item = &'a Case>) -> Vec<Vec<u32>> {
    let failing: BTreeSet<Vec<u32>> = cases.filter(|c| c.verdict == Verdict::Fail).map(|c| c.fired.clone()).collect();
    let mut ordered: Vec<Vec<u32>> = failing.into_iter().collect();
    ordered.sort_by_key(Vec::len);
    let mut minimal: Vec<Vec<u32>> = Vec::new();
    for set in ordered {
        if !minimal.iter().any(|smaller| smaller.iter().all(|site| set.contains(site))) {
            minimal.push(set);
        }
    }
    minimal
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(fired: &[u32], verdict: Verdict) -> Case {
        Case {
            space: 0,
            case: 0,
            sites: fired.to_vec(),
            fired: fired.to_vec(),
            verdict,
            status: None,
            latency_us: 0,
            reason: None,
            ending: None,
            deadline_us: None,
            fingerprint: 0,
            cause: None,
        }
    }

    #[test]
    fn supersets_of_a_failing_set_are_left_out() {
        let cases = [
            case(&[0, 1, 2], Verdict::Fail),
            case(&[1, 2], Verdict::Fail),
            case(&[3], Verdict::Fail),
            case(&[0], Verdict::Pass),
            case(&[2, 3], Verdict::Fail),
        ];
        assert_eq!(failing_sets(cases.iter()), vec![vec![3], vec![1, 2]]);
    }

    #[test]
    fn a_request_that_fails_without_faults_has_the_empty_set() {
        assert_eq!(failing_sets([case(&[], Verdict::Fail), case(&[1], Verdict::Fail)].iter()), vec![Vec::<u32>::new()]);
    }
}
