//! Below the tables of a campaign: exhaustive flips of one reply, and the detection latency.

use app::text::{grouped, printable};
use model::campaign::{Campaign, Variant, percent};

/// Every flip of the work for one reply, next to the sampled ones.
pub fn exhaustive(variant: &Variant) -> Option<String> {
    let all = variant.exhaustive.as_ref()?;
    let flips: u64 = all.kinds.iter().map(|kind| kind.flips).sum();
    let mut out = format!(
        " every flip in the work for reply {} of {}: {} flips, {} classes tried\n",
        all.reply,
        printable(&variant.name),
        grouped(flips),
        grouped(all.tried)
    );
    out.push_str(&format!(
        " {:<9}{:>10}{:>12}{:>13}{:>13}   {:<22}\n",
        "", "flips", "no effect", "undetected", "detected", "sampled, undetected"
    ));
    for kind in &all.kinds {
        let drawn = match kind.drawn.tried() {
            0 => "–".to_owned(),
            of => format!("{} of {}", grouped(kind.drawn.undetected), grouped(of)),
        };
        out.push_str(&format!(
            " {:<9}{:>10}{:>10} %{:>11} %{:>11} %   {drawn:<16}{}\n",
            kind.kind,
            grouped(kind.flips),
            percent(kind.exact.none),
            percent(kind.exact.undetected),
            percent(kind.exact.otherwise + kind.exact.hardening),
            if kind.agrees { "✓" } else { "✗ the sample disagrees" }
        ));
    }
    for kind in all.kinds.iter().filter(|kind| kind.exact.unknown > 0.0) {
        out.push_str(&format!(" {}: {} % could not be flipped or judged\n", kind.kind, percent(kind.exact.unknown)));
    }
    Some(out)
}

/// The detection latency. None if no error has one.
pub fn latency(campaign: &Campaign) -> Option<String> {
    let several = campaign.variants.len() > 1;
    let mut out = format!(
        " messages written between a flip and its error\n {:<9}{:<11}{:>9}{:>11}{:>9}{:>9}{:>9}\n",
        "", "", "errors", "none", "median", "p90", "max"
    );
    let mut any = false;
    for variant in &campaign.variants {
        if several && !variant.latency.is_empty() {
            out.push_str(&format!(" {}\n", printable(&variant.name)));
        }
        let mut last = "";
        for latency in &variant.latency {
            any = true;
            let group = latency.group.as_str();
            out.push_str(&format!(
                " {:<9}{:<11}{:>9}{:>9} %{:>9}{:>9}{:>9}\n",
                if group == last { "" } else { group },
                if latency.undetected { "undetected" } else { "detected" },
                grouped(latency.errors),
                percent(latency.at_once as f64 / latency.errors.max(1) as f64),
                grouped(latency.median),
                grouped(latency.p90),
                grouped(latency.max)
            ));
            last = group;
        }
    }
    any.then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::campaign::Latency;
    use model::flip::{BitPolicy, FlipGroup};

    #[test]
    fn detection_latency_is_a_table_of_its_own() {
        let of = |undetected, errors, at_once, max| Latency {
            group: FlipGroup::Df,
            undetected,
            errors,
            at_once,
            median: 0,
            p90: 3,
            max,
        };
        let mut one = Campaign {
            protocol: "lines".to_owned(),
            hardened: false,
            seed: 1,
            bits: BitPolicy::Full,
            types: Vec::new(),
            variants: vec![Variant::default()],
        };
        assert_eq!(latency(&one), None);
        one.variants[0].latency = vec![of(true, 1200, 600, 31), of(false, 8, 8, 0)];
        let expected = [
            " messages written between a flip and its error",
            "                        errors       none   median      p90      max",
            " DF       undetected     1,200     50.0 %        0        3       31",
            "          detected           8    100.0 %        0        3        0",
        ];
        assert_eq!(latency(&one).unwrap().lines().collect::<Vec<_>>(), expected);
    }
}
