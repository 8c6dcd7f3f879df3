//! The paper's results (SEI, tables 2 and 3): shares of manifested errors.

pub struct Published {
    pub table: u8,
    pub group: &'static str,
    pub variant: &'static str,
    pub undetected: f64,
    /// None: there is no hardening.
    pub hardening: Option<f64>,
    pub otherwise: f64,
    pub total: u64,
}

const fn row(
    table: u8,
    group: &'static str,
    variant: &'static str,
    shares: (f64, Option<f64>, f64),
    total: u64,
) -> Published {
    let (undetected, hardening, otherwise) = shares;
    Published { table, group, variant, undetected, hardening, otherwise, total }
}

pub const ROWS: [Published; 13] = [
    row(2, "CF", "mc", (9.66, None, 90.34), 6_690),
    row(2, "CF", "mc-sei", (0.06, Some(14.70), 85.23), 6_515),
    row(2, "CF", "mc-sei-dup", (0.00, Some(9.87), 90.13), 6_594),
    row(2, "DF", "mc", (44.18, None, 55.82), 15_180),
    row(2, "DF", "mc-sei", (0.15, Some(57.55), 42.29), 20_264),
    row(2, "DF", "mc-sei-dup", (0.00, Some(45.81), 54.19), 15_991),
    row(2, "RD", "mc", (33.04, None, 66.95), 10_614),
    row(2, "RD", "mc-sei", (0.52, Some(46.78), 52.70), 11_508),
    row(2, "RD", "mc-sei-dup", (0.00, Some(49.13), 50.87), 11_442),
    row(3, "CF", "mc-sei", (0.02, Some(13.78), 86.20), 6_366),
    row(3, "CF", "mc-seil", (0.05, Some(12.84), 87.11), 6_330),
    row(3, "DF", "mc-sei", (0.16, Some(58.58), 41.26), 19_484),
    row(3, "DF", "mc-seil", (0.28, Some(58.61), 41.11), 19_088),
];

/// Injections per group and variant: 8,000 of each of its types.
pub fn tried(group: &str) -> u64 {
    match group {
        "CF" => 8_000,
        "DF" => 32_000,
        _ => 16_000,
    }
}

#[cfg(test)]
mod tests {
    use super::{ROWS, tried};

    #[test]
    fn rows_add_up_as_printed() {
        for row in &ROWS {
            let sum = row.undetected + row.hardening.unwrap_or(0.0) + row.otherwise;
            assert!((sum - 100.0).abs() < 0.02, "{} {}: {sum}", row.group, row.variant);
            assert!(row.total < tried(row.group));
        }
    }
}
