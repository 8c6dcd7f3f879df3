//! Medians and their confidence intervals.
//!
//! Benches run on shared, noisy machines. They compare figures within a round and report the median of many rounds with
//! a distribution-free interval.

use serde::Serialize;

/// A median and its 95 % confidence interval.
#[derive(Clone, Copy, Serialize)]
pub struct Interval {
    pub low: f64,
    pub median: f64,
    pub high: f64,
}

impl Interval {
    pub fn of(values: &[f64]) -> Interval {
        let (low, median, high) = median_interval(values);
        Interval { low, median, high }
    }

    /// Whether the whole interval lies inside ±limit.
    pub fn within(&self, limit: f64) -> bool {
        -limit <= self.low && self.high <= limit
    }
}

/// Median and 95 % interval from order statistics (binomial), as (low, median, high). NaN for no values.
pub fn median_interval(values: &[f64]) -> (f64, f64, f64) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    if n == 0 {
        return (f64::NAN, f64::NAN, f64::NAN);
    }
    let median = if n % 2 == 1 { sorted[n / 2] } else { (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0 };
    // the k-th smallest and k-th largest enclose the median with probability 1 - 2·P(Bin(n, ½) < k)
    let mut tail = 0.5f64.powi(n as i32);
    let mut cumulative = tail;
    let mut k = 0;
    while k < n / 2 && cumulative <= 0.025 {
        k += 1;
        tail *= (n - k + 1) as f64 / k as f64;
        cumulative += tail;
    }
    let k = k.max(1);
    (sorted[k - 1], median, sorted[n - k])
}

/// SplitMix64, for the random order of variants in a round.
pub struct Shuffle(pub u64);

impl Shuffle {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn permutation(&mut self, n: usize) -> Vec<usize> {
        let mut list: Vec<usize> = (0..n).collect();
        for i in (1..n).rev() {
            list.swap(i, (self.next() % (i as u64 + 1)) as usize);
        }
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_agree_with_the_binomial_table() {
        let values: Vec<f64> = (1..=10).map(f64::from).collect();
        // for n = 10 the table gives the 2nd and the 9th value
        assert_eq!(median_interval(&values), (2.0, 5.5, 9.0));
        let values: Vec<f64> = (1..=20).map(f64::from).collect();
        assert_eq!(median_interval(&values), (6.0, 10.5, 15.0));
        assert_eq!(median_interval(&[3.0]), (3.0, 3.0, 3.0));
    }

    #[test]
    fn an_interval_is_within_a_limit_if_both_ends_are() {
        assert!(Interval { low: -2.0, median: 0.5, high: 1.9 }.within(2.0));
        assert!(!Interval { low: -2.1, median: 0.5, high: 1.9 }.within(2.0));
        assert!(!Interval { low: f64::NAN, median: f64::NAN, high: f64::NAN }.within(2.0));
    }

    #[test]
    fn a_permutation_has_every_index_once() {
        let mut order = Shuffle(7);
        for _ in 0..100 {
            let mut list = order.permutation(5);
            list.sort_unstable();
            assert_eq!(list, [0, 1, 2, 3, 4]);
        }
    }
}
