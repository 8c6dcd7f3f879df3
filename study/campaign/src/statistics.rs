//! Confidence intervals of shares, and the sample size for a given width.

use model::campaign::Share;

/// Two-sided 95 % of the normal distribution.
const Z: f64 = 1.959_963_984_540_054;

/// The share with its 95 % Wilson interval; for a count of 0 the upper end is [`upper_bound_of_none`]. None for no
/// trials.
pub fn share(count: u64, of: u64) -> Option<Share> {
    if of == 0 {
        return None;
    }
    let (low, high) = wilson(count, of, Z);
    let high = if count == 0 { upper_bound_of_none(of) } else { high };
    Some(Share { share: count as f64 / of as f64, low, high })
}

/// Wilson's interval of a share, `z` standard deviations of a normal distribution wide on either side. `of` is not 0.
pub fn wilson(count: u64, of: u64, z: f64) -> (f64, f64) {
    let (n, p) = (of as f64, count as f64 / of as f64);
    let middle = (p + z * z / (2.0 * n)) / (1.0 + z * z / n);
    let half = z / (1.0 + z * z / n) * (p * (1.0 - p) / n + z * z / (4.0 * n * n)).sqrt();
    // rounding must not leave the count outside
    let low = if count == 0 { 0.0 } else { (middle - half).max(0.0) };
    let high = if count == of { 1.0 } else { (middle + half).min(1.0) };
    (low, high)
}

/// The 95 % upper bound of a share with a count of 0 in `of` trials: the exact binomial bound, about 3/n.
pub fn upper_bound_of_none(of: u64) -> f64 {
    if of == 0 { 1.0 } else { 1.0 - 0.05f64.powf(1.0 / of as f64) }
}

/// How many trials make the interval at most `width` wide (0 to 1) for any share. It is widest at one half, where
/// Wilson's is z/√(n+z²).
pub fn trials_for(width: f64) -> u64 {
    (Z * Z / (width * width) - Z * Z).ceil().max(1.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 5e-5
    }

    #[test]
    fn intervals_are_wilsons() {
        // 10 of 100: (0.0552, 0.1744) in every textbook
        let s = share(10, 100).unwrap();
        assert!(near(s.low, 0.05523) && near(s.high, 0.17437), "{s:?}");
        // the paper's mc, DF: 44.18 % of 15,180
        let s = share(6706, 15_180).unwrap();
        assert!(near(s.low, 0.43388) && near(s.high, 0.44968), "{s:?}");
        assert_eq!(share(0, 0), None);
    }

    #[test]
    fn the_count_lies_within_its_interval() {
        for of in [1, 2, 7, 100, 8000] {
            for count in [0, 1, of / 2, of - 1, of] {
                let s = share(count, of).unwrap();
                assert!(0.0 <= s.low && s.low <= s.share && s.share <= s.high && s.high <= 1.0, "{count}/{of} {s:?}");
            }
        }
    }

    #[test]
    fn a_count_of_zero_has_an_upper_bound() {
        assert!(near(upper_bound_of_none(6594), 0.000_454_2), "{}", upper_bound_of_none(6594));
        assert!(near(upper_bound_of_none(1), 0.95));
        assert_eq!(upper_bound_of_none(0), 1.0);
    }

    #[test]
    fn the_sample_size_is_sufficient_and_necessary() {
        for width in [0.2, 0.05, 0.02, 0.01] {
            let n = trials_for(width);
            let even = n + n % 2;
            let s = share(even / 2, even).unwrap();
            assert!(s.high - s.low <= width + 1e-9, "{width} {s:?}");
            let few = n * 9 / 10 / 2 * 2;
            let s = share(few / 2, few).unwrap();
            assert!(s.high - s.low > width, "{width} {s:?}");
        }
        assert_eq!(trials_for(0.02), 9_600);
    }
}
