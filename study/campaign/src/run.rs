//! One variant of a campaign, from its golden run to its last injection.

use crate::census::Whole;
use crate::course::{Course, Ended};
use crate::engine::{Engine, Event};
use crate::judge::Judge;
use crate::spec::Spec;
use bit_flips::protocol::{Injected, Profile, Reply, Request, Spent, Way};
use model::campaign::{Logged, Role, Seconds, Variant};
use model::flip::FlipType;
use model::{Failure, Family};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// How far a variant is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Progress {
    /// The golden run: instructions so far.
    Golden {
        instructions: u64,
    },
    Flips {
        done: u64,
        total: u64,
        undetected: u64,
    },
}

impl Course<'_, '_> {
    /// Blocks until all is run or `stop` is set. An error leaves everything that was run in the log.
    pub fn run(&mut self, engine: &mut Engine, mut tell: impl FnMut(Progress)) -> Result<Ended, Failure> {
        self.variant().is_unchanged()?;
        let Some(profile) = begin(engine, &self.variant().program, self.stop, &mut tell)? else {
            return Ok(Ended::Stopped);
        };
        self.accept(&profile)?;
        if planned(self.spec, &profile) == 0 {
            return Err(Failure::unknown("no instruction that the program executes is among the chosen sites")
                .why("the names of --symbol, --handler, --library and --except are compared letter by letter; all must hold")
                .next("leave one of them out, and look at the functions of the report"));
        }
        let draw = self.spec.draw.clone();
        engine.ask(&Request::Inject { draw, way: Way::Fork, skip: self.log.known(self.index), only: Vec::new() })?;
        let total = planned(self.spec, &profile) + u64::from(self.spec.draw.controls);
        let mut judging = 0.0;
        loop {
            match engine.wait(self.stop)? {
                Event::Stopped => return Ok(Ended::Stopped),
                Event::Reply(reply) => match *reply {
                    Reply::Injected(injected) => {
                        let begin = Instant::now();
                        let logged = judged(self.judge, self.index, &profile, &injected);
                        if !self.take(&logged, &profile.golden, injected.output.as_ref())? {
                            let what = format!("the flip engine ran injection {} twice", injected.id);
                            return Err(Failure::new(Family::Bug, what));
                        }
                        judging += begin.elapsed().as_secs_f64();
                    }
                    Reply::Done(spent) => {
                        let variant = self.whole(&profile, &spent, judging);
                        return self.exhausted(engine, &profile, variant, tell);
                    }
                    Reply::Progress { .. } => {}
                    other => return Err(unexpected(&other)),
                },
            }
            let tally = self.tables.tally();
            tell(Progress::Flips {
                done: tally.tried() + self.tables.controls().run,
                total,
                undetected: tally.undetected,
            });
        }
    }

    /// With every flip of the work for one reply, if that was asked for.
    fn exhausted(
        &self,
        engine: &mut Engine,
        profile: &Profile,
        mut variant: Variant,
        tell: impl FnMut(Progress),
    ) -> Result<Ended, Failure> {
        if let (true, Some(reply)) = (self.spec.exhaustive, self.variant().program.sites.reply) {
            let types: Vec<FlipType> = self.spec.draw.types.iter().map(|(kind, _)| *kind).collect();
            let whole = Whole {
                dir: self.log.dir(),
                judge: self.judge,
                variant: self.index,
                profile,
                reply,
                types: &types,
                bits: self.spec.draw.bits,
            };
            match whole.run(engine, |kind| self.tables.of_type(kind), self.stop, tell)? {
                None => return Ok(Ended::Stopped),
                exhaustive => variant.exhaustive = exhaustive,
            }
        }
        Ok(Ended::Whole(Box::new(variant)))
    }

    fn whole(&self, profile: &Profile, spent: &Spent, judging: f64) -> Variant {
        let eligible = |kind: FlipType| profile.eligible.iter().any(|(k, n)| *k == kind && *n > 0);
        let missing = self.spec.draw.types.iter().filter(|(kind, _)| eligible(*kind));
        let missing = missing.map(|(kind, count)| u64::from(*count).saturating_sub(self.tables.of_type(*kind).tried()));
        let idle: Vec<&str> =
            self.spec.draw.types.iter().filter(|(kind, _)| !eligible(*kind)).map(|(k, _)| k.as_str()).collect();
        let mut variant = self.told(profile, planned(self.spec, profile), self.spec.draw.controls.into());
        if !idle.is_empty() {
            variant.remarks.push(format!("no instruction among the chosen sites is eligible for {}", idle.join(", ")));
        }
        variant.missing += missing.sum::<u64>();
        variant.misses = spent.misses;
        variant.seconds = Seconds {
            profile: spent.profile,
            step: spent.step,
            fork: spent.fork,
            run: spent.run,
            judge: spent.judge + judging,
            wall: spent.wall,
            cpu: spent.cpu,
        };
        variant
    }
}

fn planned(spec: &Spec, profile: &Profile) -> u64 {
    let eligible = |kind: FlipType| profile.eligible.iter().any(|(k, n)| *k == kind && *n > 0);
    spec.draw.types.iter().filter(|(kind, _)| eligible(*kind)).map(|(_, count)| u64::from(*count)).sum()
}

/// Has the engine run the program undisturbed. None: somebody wanted it to stop.
pub fn begin(
    engine: &mut Engine,
    program: &bit_flips::protocol::Program,
    stop: &AtomicBool,
    tell: &mut impl FnMut(Progress),
) -> Result<Option<Profile>, Failure> {
    engine.ask(&Request::Begin(Box::new(program.clone())))?;
    loop {
        match engine.wait(stop)? {
            Event::Stopped => return Ok(None),
            Event::Reply(reply) => match *reply {
                Reply::Profile(profile) => return Ok(Some(*profile)),
                Reply::Progress { position, .. } => tell(Progress::Golden { instructions: position }),
                other => return Err(unexpected(&other)),
            },
        }
    }
}

/// The engine's words about one injection, with its outcome.
pub fn judged(judge: &Judge, variant: u32, profile: &Profile, injected: &Injected) -> Logged {
    let Injected { output, written, effect, stderr, .. } = injected;
    let judgement = judge.judge(&profile.golden, output.as_ref(), written.as_ref(), effect, stderr);
    Logged {
        variant,
        id: injected.id,
        role: if injected.injection.is_some() { Role::Flip } else { Role::Control },
        injection: injected.injection.clone(),
        effect: injected.effect.clone(),
        outcome: judgement.outcome,
        deviation: judgement.deviation,
        remark: judgement.remark,
        live: None,
    }
}

fn unexpected(reply: &Reply) -> Failure {
    let word = match reply {
        Reply::Profile(_) => "a profile",
        Reply::Refused { .. } => "a refusal",
        Reply::Injected(_) => "an injection",
        Reply::Progress { .. } => "progress",
        Reply::Done(_) => "that it is done",
        Reply::Census(_) => "a census",
        Reply::Held(_) => "that a process is held",
    };
    Failure::new(Family::Bug, format!("the flip engine told {word} when nothing of the kind was asked"))
}
