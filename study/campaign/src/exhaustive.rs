//! Tries every flip during the work for one reply: the exact shares that a draw estimates.
//!
//! The engine sorts the flips into equivalence classes and tries one member of each; here they are judged and added up.
//! A draw gives each eligible instruction the same probability, then each of its operands, then each bit: so does a
//! share here.

use crate::engine_client::{EngineClient, unexpected};
use crate::judge::Judge;
use crate::statistics::wilson;
use crate::variant_run::{Progress, judged};
use bit_flips::engine_messages::{Profile, Reply, Request, Totals, Weight};
use model::Failure;
use model::campaign::{Exact, Exhaustive, ExhaustiveKind, Logged, Tally};
use model::flip::{BitPolicy, FlipType, Outcome};
use runs::RunDir;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::AtomicBool;

/// One line per class.
pub const CLASSES: &str = "classes.jsonl";
/// Two-sided 99.9 % of the normal distribution. About 30 comparisons are made at once, and none should fail by chance.
const Z: f64 = 3.290_526_731_491_926;

/// A class, represented by the member that was tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TriedClass {
    #[serde(flatten)]
    pub logged: Logged,
    pub stands_for: Vec<Weight>,
}

/// Tries all classes of a program that the engine has profiled.
pub struct ExhaustiveRun<'a> {
    pub dir: &'a RunDir,
    pub judge: &'a Judge,
    pub variant: u32,
    pub profile: &'a Profile,
    pub reply: usize,
    pub types: &'a [FlipType],
    pub bits: BitPolicy,
}

impl ExhaustiveRun<'_> {
    /// Tries classes that are not in the log. Blocks until all are tried. `drawn`: the outcomes of a draw in the same
    /// range. None: `stop` was set; completed classes are kept.
    pub fn run(
        &self,
        engine: &mut EngineClient,
        drawn: impl Fn(FlipType) -> Tally,
        stop: &AtomicBool,
        mut on_progress: impl FnMut(Progress),
    ) -> Result<Option<Exhaustive>, Failure> {
        let file = format!("{}-{CLASSES}", self.variant);
        let (mut sums, mut in_log) = (Sums::default(), HashSet::new());
        let mut log = self.dir.append_file(&file)?;
        self.dir.each_record(&file, |tried: TriedClass| {
            if in_log.insert(tried.logged.id) {
                sums.add(&tried);
            }
        })?;
        let (reply, types, bits) = (self.reply, self.types.to_vec(), self.bits);
        let skip = in_log.iter().copied().collect();
        let request = Request::Exhaust { reply, types, bits, classes: true, skip, only: Vec::new() };
        let mut totals = Totals::default();
        let done = engine.exchange(&request, stop, |reply| {
            match reply {
                Reply::Totals(all) => totals = all,
                Reply::Injected(injected) => {
                    let logged = judged(self.judge, self.variant, self.profile, &injected);
                    let tried = TriedClass { logged, stands_for: injected.stands_for };
                    log.append(std::slice::from_ref(&tried))?;
                    sums.add(&tried);
                }
                Reply::Done(_) => return Ok(Some(())),
                Reply::Progress { .. } => {}
                other => return Err(unexpected(&other)),
            }
            on_progress(Progress::Flips { done: sums.tried, total: totals.classes, undetected: sums.undetected });
            Ok(None)
        })?;
        Ok(done.map(|()| sums.finish(self.reply as u64, &totals, drawn)))
    }
}

#[derive(Default)]
struct Sums {
    tried: u64,
    undetected: u64,
    /// Shares of outcomes by type.
    shares: BTreeMap<FlipType, Exact>,
}

impl Sums {
    fn add(&mut self, tried: &TriedClass) {
        self.tried += 1;
        self.undetected += u64::from(tried.logged.outcome == Some(Outcome::Undetected));
        for weight in &tried.stands_for {
            let exact = self.shares.entry(weight.kind).or_default();
            let of = match (tried.logged.effect.activated, tried.logged.outcome) {
                (true, Some(Outcome::None)) => &mut exact.none,
                (true, Some(Outcome::Undetected)) => &mut exact.undetected,
                (true, Some(Outcome::Hardening)) => &mut exact.hardening,
                (true, Some(Outcome::Otherwise)) => &mut exact.otherwise,
                _ => &mut exact.unknown,
            };
            *of += weight.share;
        }
    }

    fn finish(&self, reply: u64, totals: &Totals, drawn: impl Fn(FlipType) -> Tally) -> Exhaustive {
        let kinds = totals.kinds.iter().filter(|kind| kind.flips > 0).map(|kind| {
            let mut exact = self.shares.get(&kind.kind).copied().unwrap_or_default();
            exact.none += kind.dead_share + kind.same_share;
            let exact = exact.of(kind.share);
            let drawn = drawn(kind.kind);
            ExhaustiveKind {
                kind: kind.kind,
                flips: kind.flips,
                idle: kind.dead + kind.same,
                exact,
                drawn,
                agrees: agrees(&exact, &drawn),
            }
        });
        Exhaustive { reply, classes: totals.classes, tried: self.tried, kinds: kinds.collect() }
    }
}

/// Whether each exact share is in the confidence interval of the drawn one.
fn agrees(exact: &Exact, drawn: &Tally) -> bool {
    let of = drawn.tried();
    let pairs = [
        (exact.none, drawn.none),
        (exact.undetected, drawn.undetected),
        (exact.hardening, drawn.hardening),
        (exact.otherwise, drawn.otherwise),
    ];
    of == 0
        || pairs.iter().all(|(exact, count)| {
            let (low, high) = wilson(*count, of, Z);
            (low - 1e-9..=high + 1e-9).contains(exact)
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{flip, logged};
    use bit_flips::engine_messages::TypeTotals;

    fn class(id: u32, outcome: Outcome, stands_for: Vec<Weight>) -> TriedClass {
        TriedClass { logged: logged(id, Some(flip(id, FlipType::Wreg, 0)), Some(outcome)), stands_for }
    }

    fn weight(kind: FlipType, flips: u64, share: f64) -> Weight {
        Weight { kind, flips, share }
    }

    #[test]
    fn a_class_counts_for_every_type_that_it_represents() {
        let mut sums = Sums::default();
        sums.add(&class(0, Outcome::Undetected, vec![weight(FlipType::Wreg, 1, 0.5), weight(FlipType::Rreg, 3, 1.5)]));
        sums.add(&class(1, Outcome::Otherwise, vec![weight(FlipType::Rreg, 1, 0.5)]));
        let kinds = vec![
            TypeTotals { flips: 2, share: 1.0, dead: 1, dead_share: 0.5, ..TypeTotals::of(FlipType::Wreg) },
            TypeTotals { flips: 4, share: 2.0, ..TypeTotals::of(FlipType::Rreg) },
        ];
        let whole = sums.finish(3, &Totals { classes: 2, kinds }, |_| Tally::default());
        let [wreg, rreg] = whole.kinds.as_slice() else { panic!("{whole:?}") };
        assert_eq!((wreg.exact.none, wreg.exact.undetected, wreg.idle), (0.5, 0.5, 1));
        assert_eq!((rreg.exact.undetected, rreg.exact.otherwise), (0.75, 0.25));
        assert!(wreg.agrees, "nothing was drawn");
    }

    #[test]
    fn a_distant_draw_disagrees() {
        let exact = Exact { none: 0.5, otherwise: 0.5, ..Exact::default() };
        let drawn = |none, otherwise| Tally { none, otherwise, ..Tally::default() };
        assert!(agrees(&exact, &drawn(110, 90)));
        assert!(!agrees(&exact, &drawn(150, 50)));
    }
}
