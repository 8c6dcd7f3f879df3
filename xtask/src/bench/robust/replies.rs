//! Replies that end badly, with and without tracing, for all client libraries of all languages: see
//! [`crate::replies`].

use super::{Goal, Size};
use crate::replies::{Comparison, compare};
use serde_json::{Value, json};

/// Fewer pairs of calls show that a library or cases were left out.
const PAIRS_MIN: f64 = 1_500.0;

pub fn measure(_: &Size) -> Result<Value, String> {
    let Comparison { counts, differences } = compare(&[])?;
    println!(
        "  {} cases, {} libraries: {} pairs of calls compared, {} unsupported, {} different, {} rarely different",
        counts.cases,
        counts.libraries.len(),
        counts.compared,
        counts.unsupported,
        differences.len(),
        counts.rare
    );
    for difference in &differences {
        println!("    {difference}");
    }
    Ok(json!(counts))
}

pub fn goals(figures: &Value, _: &Size) -> Vec<Goal> {
    let figure = |key: &str| figures[key].as_f64().unwrap_or(f64::NAN);
    vec![
        Goal::at_least("reply_pairs", figure("compared"), PAIRS_MIN),
        Goal::equals("differences_to_untraced", figure("differences_to_untraced"), 0.0),
        Goal::equals("rare_differences", figure("rare"), 0.0),
    ]
}
