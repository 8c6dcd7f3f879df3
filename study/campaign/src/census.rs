//! Every flip there is within the work for one reply: what a draw of them estimates, known exactly.
//!
//! The engine sorts the flips into classes that come to the same and tries one member of each; here they are judged and added
//! up. A draw gives each eligible instruction the same chance, then each of its operands, then each bit: so does a share here.

use crate::engine::{Engine, Event};
use crate::judge::Judge;
use crate::run::{Progress, judged};
use crate::statistics::wilson;
use bit_flips::protocol::{Census, Profile, Reply, Request, Weight};
use model::campaign::{Exact, Exhaustive, ExhaustiveKind, Logged, Tally};
use model::flip::{BitPolicy, FlipType, Outcome};
use model::{Failure, Family};
use runs::RunDir;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::AtomicBool;

/// One line per class.
pub const CLASSES: &str = "classes.jsonl";
/// Of a normal distribution: 99.9 %, two-sided. Some 30 comparisons are made at once, and none should be wrong by chance.
const Z: f64 = 3.290_526_731_491_926;

/// A class, by the member that was tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tried {
    #[serde(flatten)]
    pub logged: Logged,
    pub stands_for: Vec<Weight>,
}

/// What is asked for, of a program that the engine has profiled.
pub struct Whole<'a> {
    pub dir: &'a RunDir,
    pub judge: &'a Judge,
    pub variant: u32,
    pub profile: &'a Profile,
    pub reply: usize,
    pub types: &'a [FlipType],
    pub bits: BitPolicy,
}

impl Whole<'_> {
    /// Tries what is not in the log yet. Blocks until all is tried. `drawn`: what a draw in the same work came to. None: `stop` was set;
    /// what was tried is kept.
    pub fn run(
        &self,
        engine: &mut Engine,
        drawn: impl Fn(FlipType) -> Tally,
        stop: &AtomicBool,
        mut tell: impl FnMut(Progress),
    ) -> Result<Option<Exhaustive>, Failure> {
        let file = format!("{}-{CLASSES}", self.variant);
        let (mut sums, mut known) = (Sums::default(), HashSet::new());
        let mut log = self.dir.segment(&file)?;
        self.dir.each_record(&file, |tried: Tried| {
            if known.insert(tried.logged.id) {
                sums.add(&tried);
            }
        })?;
        let (reply, types, bits) = (self.reply, self.types.to_vec(), self.bits);
        let skip = known.iter().copied().collect();
        engine.ask(&Request::Exhaust { reply, types, bits, classes: true, skip, only: Vec::new() })?;
        let mut census = Census::default();
        loop {
            match engine.wait(stop)? {
                Event::Stopped => return Ok(None),
                Event::Reply(reply) => match *reply {
                    Reply::Census(all) => census = all,
                    Reply::Injected(injected) => {
                        let logged = judged(self.judge, self.variant, self.profile, &injected);
                        let tried = Tried { logged, stands_for: injected.stands_for };
                        log.append(std::slice::from_ref(&tried))?;
                        sums.add(&tried);
                    }
                    Reply::Done(_) => return Ok(Some(sums.whole(self.reply as u64, &census, drawn))),
                    Reply::Progress { .. } => {}
                    _ => return Err(Failure::new(Family::Bug, "the flip engine told something else than classes")),
                },
            }
            tell(Progress::Flips { done: sums.tried, total: census.classes, undetected: sums.undetected });
        }
    }
}

#[derive(Default)]
struct Sums {
    tried: u64,
    undetected: u64,
    /// Of each type, by outcome.
    shares: BTreeMap<FlipType, Exact>,
}

impl Sums {
    fn add(&mut self, tried: &Tried) {
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

    fn whole(&self, reply: u64, census: &Census, drawn: impl Fn(FlipType) -> Tally) -> Exhaustive {
        let kinds = census.kinds.iter().filter(|kind| kind.flips > 0).map(|kind| {
            let mut exact = self.shares.get(&kind.kind).copied().unwrap_or_default();
            exact.none += kind.gone_share + kind.same_share;
            let exact = exact.of(kind.share);
            let drawn = drawn(kind.kind);
            ExhaustiveKind {
                kind: kind.kind,
                flips: kind.flips,
                idle: kind.gone + kind.same,
                exact,
                drawn,
                agrees: agrees(&exact, &drawn),
            }
        });
        Exhaustive { reply, classes: census.classes, tried: self.tried, kinds: kinds.collect() }
    }
}

/// Whether each exact share lies in the interval of the drawn one.
fn agrees(exact: &Exact, drawn: &Tally) -> bool {
    let of = drawn.tried();
    let pairs = [
        (exact.none, drawn.none),
        (exact.undetected, drawn.undetected),
        (exact.hardening, drawn.hardening),
        (exact.otherwise, drawn.otherwise),
    ];
    of == 0
        || pairs.iter().all(|(exact, seen)| {
            let (low, high) = wilson(*seen, of, Z);
            (low - 1e-9..=high + 1e-9).contains(exact)
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{flip, logged};
    use bit_flips::protocol::Kind;

    fn class(id: u32, outcome: Outcome, stands_for: Vec<Weight>) -> Tried {
        Tried { logged: logged(id, Some(flip(id, FlipType::Wreg, 0)), Some(outcome)), stands_for }
    }

    fn weight(kind: FlipType, flips: u64, share: f64) -> Weight {
        Weight { kind, flips, share }
    }

    #[test]
    fn a_class_counts_for_every_type_whose_flips_it_stands_for() {
        let mut sums = Sums::default();
        sums.add(&class(0, Outcome::Undetected, vec![weight(FlipType::Wreg, 1, 0.5), weight(FlipType::Rreg, 3, 1.5)]));
        sums.add(&class(1, Outcome::Otherwise, vec![weight(FlipType::Rreg, 1, 0.5)]));
        let kinds = vec![
            Kind { flips: 2, share: 1.0, gone: 1, gone_share: 0.5, ..Kind::of(FlipType::Wreg) },
            Kind { flips: 4, share: 2.0, ..Kind::of(FlipType::Rreg) },
        ];
        let whole = sums.whole(3, &Census { classes: 2, kinds }, |_| Tally::default());
        let [wreg, rreg] = whole.kinds.as_slice() else { panic!("{whole:?}") };
        assert_eq!((wreg.exact.none, wreg.exact.undetected, wreg.idle), (0.5, 0.5, 1));
        assert_eq!((rreg.exact.undetected, rreg.exact.otherwise), (0.75, 0.25));
        assert!(wreg.agrees, "nothing was drawn");
    }

    #[test]
    fn a_draw_that_is_far_off_disagrees() {
        let exact = Exact { none: 0.5, otherwise: 0.5, ..Exact::default() };
        let drawn = |none, otherwise| Tally { none, otherwise, ..Tally::default() };
        assert!(agrees(&exact, &drawn(110, 90)));
        assert!(!agrees(&exact, &drawn(150, 50)));
    }
}
