//! Runs the flips of one variant: from its golden run to its last injection.

use crate::engine_client::{EngineClient, unexpected};
use crate::exhaustive::ExhaustiveRun;
use crate::spec::Spec;
use crate::variant_run::{Completion, Progress, VariantRun, judged};
use bit_flips::engine_messages::{Method, Profile, Program, Reply, Request, Timings};
use model::campaign::{Seconds, Variant};
use model::flip::FlipType;
use model::{Failure, Family};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

impl VariantRun<'_, '_> {
    /// Blocks until all flips are made or `stop` is set. After an error, completed injections are in the log.
    pub fn run(
        &mut self,
        engine: &mut EngineClient,
        mut on_progress: impl FnMut(Progress),
    ) -> Result<Completion, Failure> {
        self.variant().check_unchanged()?;
        let Some(profile) = profile_program(engine, &self.variant().program, self.stop, &mut on_progress)? else {
            return Ok(Completion::Stopped);
        };
        self.accept(&profile)?;
        if planned(self.spec, &profile) == 0 {
            return Err(Failure::unknown("the program executes no instruction of the selected sites")
                .why("--symbol, --handler, --library and --except compare names exactly; all conditions must hold")
                .next("omit one of them, and look up the functions in the report"));
        }
        let request = Request::Inject {
            draw: self.spec.draw.clone(),
            method: Method::Fork,
            skip: self.log.logged(self.index),
            only: Vec::new(),
        };
        let total = planned(self.spec, &profile) + u64::from(self.spec.draw.controls);
        let mut judging = 0.0;
        let timings = engine.exchange(&request, self.stop, |reply| {
            match reply {
                Reply::Injected(injected) => {
                    let begin = Instant::now();
                    let logged = judged(self.judge, self.index, &profile, &injected);
                    if !self.record(&logged, &profile.golden, injected.output.as_ref())? {
                        let what = format!("the flip engine repeated injection {}", injected.id);
                        return Err(Failure::new(Family::Bug, what));
                    }
                    judging += begin.elapsed().as_secs_f64();
                }
                Reply::Done(timings) => return Ok(Some(timings)),
                Reply::Progress { .. } => {}
                other => return Err(unexpected(&other)),
            }
            let tally = self.tables.tally();
            on_progress(Progress::Flips {
                done: tally.tried() + self.tables.controls().run,
                total,
                undetected: tally.undetected,
            });
            Ok(None)
        })?;
        let Some(timings) = timings else { return Ok(Completion::Stopped) };
        let mut variant = self.summarize(&profile, &timings, judging);
        if let (true, Some(reply)) = (self.spec.exhaustive, self.variant().program.sites.reply) {
            let types: Vec<FlipType> = self.spec.draw.types.iter().map(|(kind, _)| *kind).collect();
            let exhaustive = ExhaustiveRun {
                dir: self.log.dir(),
                judge: self.judge,
                variant: self.index,
                profile: &profile,
                reply,
                types: &types,
                bits: self.spec.draw.bits,
            };
            match exhaustive.run(engine, |kind| self.tables.of_type(kind), self.stop, on_progress)? {
                None => return Ok(Completion::Stopped),
                result => variant.exhaustive = result,
            }
        }
        Ok(Completion::Complete(Box::new(variant)))
    }

    fn judge_remark(&self, profile: &Profile) -> Option<String> {
        let rules = &self.spec.rules;
        let by_lines = rules.protocol == "lines" && rules.command.is_none();
        let binary = profile.golden.streams.iter().any(|stream| is_binary(&stream.bytes));
        (by_lines && binary).then(|| {
            "its output is not text: every wrong byte counts as undetected, also where a reader such as gunzip would \
             reject it; --judge COMMAND lets that reader decide"
                .to_owned()
        })
    }

    fn summarize(&self, profile: &Profile, timings: &Timings, judging: f64) -> Variant {
        let eligible = |kind: FlipType| profile.eligible.iter().any(|(k, n)| *k == kind && *n > 0);
        let missing = self.spec.draw.types.iter().filter(|(kind, _)| eligible(*kind));
        let missing = missing.map(|(kind, count)| u64::from(*count).saturating_sub(self.tables.of_type(*kind).tried()));
        let ineligible: Vec<&str> =
            self.spec.draw.types.iter().filter(|(kind, _)| !eligible(*kind)).map(|(k, _)| k.as_str()).collect();
        let mut variant = self.summary(profile, planned(self.spec, profile), self.spec.draw.controls.into());
        if !ineligible.is_empty() {
            variant
                .remarks
                .push(format!("no instruction of the selected sites is eligible for {}", ineligible.join(", ")));
        }
        variant.remarks.extend(self.judge_remark(profile));
        variant.missing += missing.sum::<u64>();
        variant.seconds = Seconds {
            profile: timings.profile,
            step: timings.step,
            fork: timings.fork,
            run: timings.run,
            judge: timings.judge + judging,
            wall: timings.wall,
            cpu: timings.cpu,
        };
        variant
    }
}

/// Compressed or otherwise encoded output: a reader rejects most of what differs, which lines cannot show.
fn is_binary(bytes: &[u8]) -> bool {
    bytes.contains(&0) || std::str::from_utf8(bytes).is_err()
}

fn planned(spec: &Spec, profile: &Profile) -> u64 {
    let eligible = |kind: FlipType| profile.eligible.iter().any(|(k, n)| *k == kind && *n > 0);
    spec.draw.types.iter().filter(|(kind, _)| eligible(*kind)).map(|(_, count)| u64::from(*count)).sum()
}

/// Has the engine run the program undisturbed. None: `stop` was set.
pub(crate) fn profile_program(
    engine: &mut EngineClient,
    program: &Program,
    stop: &AtomicBool,
    on_progress: &mut impl FnMut(Progress),
) -> Result<Option<Profile>, Failure> {
    engine.exchange(&Request::Begin(Box::new(program.clone())), stop, |reply| match reply {
        Reply::Profile(profile) => Ok(Some(*profile)),
        Reply::Progress { position, of } => {
            on_progress(Progress::Golden { instructions: position, of });
            Ok(None)
        }
        other => Err(unexpected(&other)),
    })
}
