//! Flips in a process that runs already, each judged by a check of the user's own: a command that asks the process as its clients do
//! and fails if a reply is wrong.
//!
//! Healthy, then disturbed: the check must hold twice before anything is flipped. It runs on while the flip is brought about, which
//! gives the process something to do and meets what is wrong for a moment only, and once more afterwards. The first one that fails
//! decides. Nothing is undone, so there is no healthy end, and what one flip left behind can show after a later one.
//!
//! | the check | the process | outcome |
//! |---|---|---|
//! | | has ended | detected otherwise |
//! | holds | runs | no effect |
//! | fails | runs | undetected, unless the check itself prints another outcome |
//! | takes too long | runs | detected otherwise |
//! | is ended by a signal, or there is none | runs | not judged: the verdict is unknown |

use crate::course::Course;
use crate::judge::asked;
use crate::native::{self, Ran};
use crate::run::Progress;
use crate::spec::Live;
use bit_flips::live::{Aim, Begun, Wound};
use bit_flips::protocol::{Output, Profile};
use bit_flips::random::Random;
use model::Failure;
use model::campaign::{LiveFlip, LiveProcess, Logged, Role, Variant};
use model::flip::{Effect, Ending, Outcome};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Checks before anything is flipped.
pub const BEFORE: u32 = 2;
/// How long a process that was struck may take to end, where something is wrong or nothing else tells.
const ENDING: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(5);
/// Of what a check wrote to its standard error.
const EXCERPT: usize = 160;

/// Brings a flip about, in a process of its own.
pub type Flip<'a> = &'a mut dyn FnMut(&Aim) -> Result<Wound, Failure>;

impl Course<'_, '_> {
    /// Strikes a running process. Blocks until all flips are made, the process has ended, or `stop` is set. An error says that nothing
    /// was flipped at all.
    pub fn run_live(&mut self, live: &Live, flip: Flip, mut tell: impl FnMut(Progress)) -> Result<Variant, Failure> {
        let begin = Instant::now();
        let golden = self.healthy(live)?;
        let mut seeds = Random(self.spec.draw.seed);
        let mut flips = Vec::new();
        let mut remarks = Vec::new();
        for id in 0..live.flips {
            match runs(live) {
                true if !self.stop.load(Ordering::Relaxed) => {}
                false if id == 0 => return Err(gone(live.pid)),
                _ => break,
            }
            let (flipped, failed) = self.strike(live, &mut *flip, seeds.number())?;
            let wound = match flipped {
                Ok(wound) => wound,
                Err(_) if self.stop.load(Ordering::Relaxed) => break,
                Err(failure) if id == 0 => return Err(failure),
                Err(failure) => {
                    if runs(live) {
                        remarks.push(format!("flip {} was not made: {}", id + 1, failure.what));
                    }
                    break;
                }
            };
            let logged = self.judge_flip(live, id, wound, failed, golden.as_ref());
            self.take(&logged, &Output::default(), None)?;
            self.log.sync()?;
            if flips.len() < Variant::STORIES {
                flips.push(logged);
            }
            let done = self.tables.tally();
            tell(Progress::Flips { done: done.tried(), total: live.flips.into(), undetected: done.undetected });
        }
        Ok(self.struck(live, flips, remarks, begin.elapsed().as_secs_f64()))
    }

    /// What the check prints while all is well.
    fn healthy(&mut self, live: &Live) -> Result<Option<Output>, Failure> {
        let Some(check) = &live.check else { return Ok(None) };
        let mut golden = None;
        for id in 0..BEFORE {
            let ran = native::shell(check, Duration::from_millis(live.timeout_ms))?;
            if ran.effect.ending != Ending::Exit(0) {
                return Err(Failure::environment("the check fails before anything is flipped")
                    .why(told(&ran))
                    .next(format!("see that it ends with status 0 by itself: {check}")));
            }
            let control = Logged {
                variant: self.index,
                id: live.flips + id,
                role: Role::Control,
                injection: None,
                effect: ran.effect,
                outcome: Some(Outcome::None),
                deviation: None,
                remark: None,
                live: None,
            };
            self.take(&control, &Output::default(), None)?;
            golden = Some(ran.output);
        }
        Ok(golden)
    }

    /// Flips one bit while the check runs, again and again, and once more. With the first check that failed.
    fn strike(&self, live: &Live, flip: Flip, seed: u64) -> Result<(Result<Wound, Failure>, Option<Ran>), Failure> {
        let aim = Aim {
            pid: live.pid,
            types: live.types.clone(),
            bits: self.spec.draw.bits,
            sites: self.variant().program.sites.clone(),
            seed,
            patience_ms: live.patience_ms,
        };
        let Some(check) = &live.check else { return Ok((flip(&aim), None)) };
        let flipped = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let checks = scope.spawn(|| {
                let mut failed = None;
                loop {
                    let last = flipped.load(Ordering::Acquire);
                    let ran = native::shell(check, Duration::from_millis(live.timeout_ms))?;
                    if ran.effect.ending != Ending::Exit(0) {
                        failed.get_or_insert(ran);
                    }
                    if last {
                        return Ok(failed);
                    }
                }
            });
            let result = flip(&aim);
            flipped.store(true, Ordering::Release);
            let failed = checks.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            failed.map(|failed| (result, failed))
        })
    }

    fn judge_flip(&self, live: &Live, id: u32, wound: Wound, failed: Option<Ran>, golden: Option<&Output>) -> Logged {
        let runs = if failed.is_some() || golden.is_none() { runs_on(live) } else { runs(live) };
        let outcome = match (&failed, runs) {
            (_, false) => Some(Outcome::Otherwise),
            (Some(ran), true) => outcome(ran),
            (None, true) => golden.map(|_| Outcome::None),
        };
        let deviation = failed.as_ref().zip(golden).and_then(|(ran, golden)| {
            self.judge.judge(golden, Some(&ran.output), None, &ran.effect, &ran.stderr).deviation
        });
        let remark = match (&failed, golden) {
            (Some(ran), _) => Some(told(ran)),
            (None, None) => Some("without a check nothing says what its clients saw".to_owned()),
            (None, Some(_)) => None,
        };
        let (failed, ending) = (failed.is_some(), failed.map_or(Ending::Exit(0), |ran| ran.effect.ending));
        let Wound { thread, injection, hit, activated, .. } = wound;
        // a reply that is wrong although nothing was flipped says that the others prove nothing
        let role = if !activated && failed { Role::Control } else { Role::Flip };
        Logged {
            variant: self.index,
            id,
            role,
            injection: Some(model::flip::Injection { id, ..injection }),
            effect: Effect { hit, activated, ending, crash: None, cpu_us: 0, refused_calls: 0 },
            outcome,
            deviation,
            remark,
            live: Some(LiveFlip { thread, runs }),
        }
    }

    fn struck(&self, live: &Live, flips: Vec<Logged>, remarks: Vec<String>, wall: f64) -> Variant {
        let (tried, asked, runs) = (self.tables.tally().tried(), u64::from(live.flips), runs(live));
        let controls = if live.check.is_some() { BEFORE.into() } else { 0 };
        // of a process that is gone nothing more can be asked
        let planned = if runs { asked } else { tried };
        let mut variant = self.told(&Profile::default(), planned, controls);
        variant.missing += planned.saturating_sub(tried);
        variant.remarks = remarks;
        if !runs && tried < asked {
            variant.remarks.push(format!("the process has ended after {tried} of {asked} flips"));
        }
        let seen = flips.last().and_then(|last| last.live).is_some_and(|last| last.runs);
        if !runs && seen {
            variant.remarks.push("it ended after its last check, by one of the flips before or by itself".to_owned());
        }
        variant.seconds.wall = wall;
        variant.live = Some(LiveProcess { pid: live.pid, check: live.check.clone(), runs, flips });
        variant
    }
}

fn runs(live: &Live) -> bool {
    Begun::of(live.pid).is_some_and(|begun| begun.ticks == live.ticks)
}

/// Whether it still does so after a while.
fn runs_on(live: &Live) -> bool {
    let begin = Instant::now();
    while begin.elapsed() < ENDING {
        if !runs(live) {
            return false;
        }
        std::thread::sleep(POLL);
    }
    true
}

fn gone(pid: i32) -> Failure {
    Failure::environment(format!("process {pid} has ended before anything was flipped"))
        .next("ps -e lists those that run")
}

/// Of a check that failed although the process runs.
fn outcome(ran: &Ran) -> Option<Outcome> {
    let said = ran.output.streams.first().map(|stream| String::from_utf8_lossy(&stream.bytes).into_owned());
    let word = said.as_deref().and_then(|said| asked::word(said.lines().last()?));
    match ran.effect.ending {
        Ending::Hang => Some(Outcome::Otherwise),
        Ending::Signal(_) => None,
        Ending::Exit(_) => word.filter(|word| word.manifested()).or(Some(Outcome::Undetected)),
    }
}

/// How a check failed, with its last words.
fn told(ran: &Ran) -> String {
    let how = match ran.effect.ending {
        Ending::Exit(status) => format!("the check ended with status {status}"),
        Ending::Signal(signal) => format!("the check was ended by signal {signal}"),
        Ending::Hang => "the check took too long".to_owned(),
    };
    let stdout = ran.output.streams.first().map_or(&[][..], |stream| &stream.bytes);
    let words = [&ran.stderr[..], stdout].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let last = words.iter().find_map(|text| text.lines().map(str::trim).rfind(|line| !line.is_empty()));
    last.map_or(how.clone(), |last| format!("{how}: {}", last.chars().take(EXCERPT).collect::<String>()))
}
