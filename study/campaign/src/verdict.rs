//! The verdict of a campaign.

use model::Verdict;
use model::campaign::Variant;

/// Fail if a client would have accepted corrupt output. Unknown, with reasons, if the results are unreliable or
/// incomplete. Pass otherwise.
pub fn verdict(variants: &[Variant]) -> (Verdict, Vec<String>) {
    let mut doubts = Vec::new();
    for variant in variants {
        let mut doubt = |count: u64, what: &str| {
            if count > 0 {
                doubts.push(format!("{}: {count} {what}", variant.name));
            }
        };
        doubt(
            variant.controls.deviating,
            "of the fault-free runs did not write the golden output: the effect of flips cannot be distinguished from chance. \
             Times of files that the program creates differ, for example, and threads that run freely",
        );
        doubt(variant.misses, "times the golden process was not at the planned position");
        doubt(variant.missing, "planned runs are missing");
        doubt(variant.tally.unjudged, "outputs could not be judged");
        // in stored campaigns only: such a program is refused now
        if variant.live.is_none() && variant.golden_bytes == 0 {
            doubts.push(format!("{}: the program wrote no output in which a flip could have an effect", variant.name));
        }
        let all = variant.exhaustive.iter();
        let disagreeing: Vec<&str> =
            all.flat_map(|all| &all.kinds).filter(|kind| !kind.agrees).map(|kind| kind.kind.as_str()).collect();
        if !disagreeing.is_empty() {
            doubts.push(format!(
                "{}: the draw of {} disagrees with the exact shares",
                variant.name,
                disagreeing.join(", ")
            ));
        }
        let untried = variant.exhaustive.as_ref().map_or(0, |all| all.classes.saturating_sub(all.tried));
        if untried > 0 {
            doubts.push(format!("{}: {untried} classes of flips were not tried", variant.name));
        }
        if variant.tally.tried() == variant.tally.inactive {
            doubts.push(format!("{}: nothing that was planned took effect", variant.name));
        }
    }
    let undetected = variants.iter().any(|variant| variant.tally.undetected > 0);
    let verdict = match (doubts.is_empty(), undetected) {
        (false, _) => Verdict::Unknown,
        (true, true) => Verdict::Fail,
        (true, false) => Verdict::Pass,
    };
    (verdict, doubts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::campaign::{Controls, Exhaustive, Tally};

    fn variant(tally: Tally) -> Variant {
        Variant { name: "a".to_owned(), tally, golden_bytes: 9, ..Variant::default() }
    }

    #[test]
    fn any_doubt_makes_the_verdict_unknown() {
        let good = variant(Tally { none: 5, otherwise: 2, ..Tally::default() });
        assert_eq!(verdict(std::slice::from_ref(&good)).0, Verdict::Pass);
        let bad = variant(Tally { undetected: 1, ..good.tally });
        assert_eq!(verdict(&[good.clone(), bad.clone()]).0, Verdict::Fail);
        for doubtful in [
            Variant { misses: 1, ..bad.clone() },
            Variant { missing: 1, ..bad.clone() },
            Variant { controls: Controls { planned: 9, run: 9, deviating: 1 }, ..bad.clone() },
            Variant { exhaustive: Some(Exhaustive { classes: 1, ..Exhaustive::default() }), ..bad.clone() },
            variant(Tally { unjudged: 1, ..bad.tally }),
            variant(Tally { inactive: 3, ..Tally::default() }),
            variant(Tally::default()),
            Variant { golden_bytes: 0, ..good.clone() },
        ] {
            let (verdict, doubts) = verdict(&[good.clone(), doubtful]);
            assert_eq!((verdict, doubts.len()), (Verdict::Unknown, 1), "{doubts:?}");
        }
    }
}
