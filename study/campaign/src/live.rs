//! Flips in a running process, each judged by the user's own check: a command that sends requests to the process as its
//! clients do and fails if a reply is wrong.
//!
//! Healthy, then disturbed: the check must pass twice before anything is flipped. It runs repeatedly while the flip is
//! made, which keeps the process busy and catches transient errors, and once more afterwards. The first failing check
//! decides. Nothing is undone, so there is no healthy end, and the effect of a flip may appear after a later one.
//!
//! | the check | the process | outcome |
//! |---|---|---|
//! | | has ended | detected otherwise |
//! | passes | runs | no effect |
//! | fails | runs | undetected, unless the check itself prints another outcome |
//! | times out | runs | detected otherwise |
//! | is killed by a signal, or there is none | runs | not judged: the verdict is unknown |

use crate::judge::command_judge;
use crate::local_run::{self, LocalRun};
use crate::spec::Live;
use crate::variant_run::{Progress, VariantRun};
use bit_flips::engine_messages::Profile;
use bit_flips::live::{Injection, Target};
use model::Failure;
use model::campaign::{LiveFlip, LiveProcess, Logged, Role, Variant};
use model::flip::Output;
use model::flip::{Effect, Ending, Outcome};
use model::random::Random;
use process::ProcessId;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use target::CommandGuard;

/// Checks before anything is flipped.
pub const BEFORE: u32 = 2;
/// How long to wait for a corrupted process to end, after a failed check or without a check.
const END_WAIT: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(5);
/// Length of an excerpt of a check's output.
const EXCERPT: usize = 160;

/// Makes one flip, in a separate process.
pub type Flip<'a> = &'a mut dyn FnMut(&Target) -> Result<Injection, Failure>;

impl VariantRun<'_, '_> {
    /// Flips bits in a running process. Blocks until all flips are made, the process has ended, or `stop` is set. After
    /// an error, no bit was flipped.
    pub fn run_live(
        &mut self,
        live: &Live,
        guard: &CommandGuard,
        flip: Flip,
        mut on_progress: impl FnMut(Progress),
    ) -> Result<Variant, Failure> {
        let begin = Instant::now();
        let golden = self.check_healthy(live, guard)?;
        let mut seeds = Random(self.spec.draw.seed);
        let mut flips = Vec::new();
        let mut remarks = Vec::new();
        for id in 0..live.flips {
            match is_running(live) {
                true if !self.stop.load(Ordering::Relaxed) => {}
                false if id == 0 => return Err(has_ended(live.pid)),
                _ => break,
            }
            let (flipped, failed) = self.flip_during_checks(live, guard, &mut *flip, seeds.number())?;
            let injection = match flipped {
                Ok(injection) => injection,
                Err(_) if self.stop.load(Ordering::Relaxed) => break,
                Err(failure) if id == 0 => return Err(failure),
                Err(failure) => {
                    if is_running(live) {
                        remarks.push(format!("flip {} was not made: {}", id + 1, failure.what));
                    }
                    break;
                }
            };
            let logged = self.judge_flip(live, id, injection, failed, golden.as_ref());
            self.record(&logged, &Output::default(), None)?;
            self.log.sync()?;
            if flips.len() < Variant::STORIES {
                flips.push(logged);
            }
            let tally = self.tables.tally();
            on_progress(Progress::Flips {
                done: tally.tried(),
                total: live.flips.into(),
                undetected: tally.undetected,
            });
        }
        Ok(self.live_summary(live, flips, remarks, begin.elapsed().as_secs_f64()))
    }

    /// Runs the check before anything is flipped, and returns its output.
    fn check_healthy(&mut self, live: &Live, guard: &CommandGuard) -> Result<Option<Output>, Failure> {
        let Some(check) = &live.check else { return Ok(None) };
        let mut golden = None;
        for id in 0..BEFORE {
            let run = local_run::run_shell(guard, check, Duration::from_millis(live.timeout_ms))?;
            if run.effect.ending != Ending::Exit(0) {
                return Err(Failure::environment("the check fails before anything is flipped")
                    .why(check_failure(&run))
                    .next(format!("make sure that it exits with status 0: {check}")));
            }
            let control = Logged {
                variant: self.index,
                id: live.flips + id,
                role: Role::Control,
                injection: None,
                effect: run.effect,
                outcome: Some(Outcome::None),
                deviation: None,
                remark: None,
                live: None,
            };
            self.record(&control, &Output::default(), None)?;
            golden = Some(run.output);
        }
        Ok(golden)
    }

    /// Flips one bit while the check runs repeatedly, and runs it once more. Also returns the first check that failed.
    fn flip_during_checks(
        &self,
        live: &Live,
        guard: &CommandGuard,
        flip: Flip,
        seed: u64,
    ) -> Result<(Result<Injection, Failure>, Option<LocalRun>), Failure> {
        let target = Target {
            pid: live.pid,
            types: live.types.clone(),
            bits: self.spec.draw.bits,
            sites: self.variant().program.sites.clone(),
            seed,
            patience_ms: live.patience_ms,
        };
        let Some(check) = &live.check else { return Ok((flip(&target), None)) };
        let flipped = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let checks = scope.spawn(|| {
                let mut failed = None;
                loop {
                    let last = flipped.load(Ordering::Acquire);
                    let run = local_run::run_shell(guard, check, Duration::from_millis(live.timeout_ms))?;
                    if run.effect.ending != Ending::Exit(0) {
                        failed.get_or_insert(run);
                    }
                    if last {
                        return Ok(failed);
                    }
                }
            });
            let result = flip(&target);
            flipped.store(true, Ordering::Release);
            let failed = checks.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            failed.map(|failed| (result, failed))
        })
    }

    fn judge_flip(
        &self,
        live: &Live,
        id: u32,
        flipped: Injection,
        failed: Option<LocalRun>,
        golden: Option<&Output>,
    ) -> Logged {
        let running = if failed.is_some() || golden.is_none() { stays_running(live) } else { is_running(live) };
        let outcome = match (&failed, running) {
            (_, false) => Some(Outcome::Otherwise),
            (Some(run), true) => outcome(run),
            (None, true) => golden.map(|_| Outcome::None),
        };
        let deviation = failed.as_ref().zip(golden).and_then(|(run, golden)| {
            self.judge.judge(golden, Some(&run.output), None, &run.effect, &run.stderr).deviation
        });
        let remark = match (&failed, golden) {
            (Some(run), _) => Some(check_failure(run)),
            (None, None) => Some("without a check it is unknown what its clients received".to_owned()),
            (None, Some(_)) => None,
        };
        let (failed, ending) = (failed.is_some(), failed.map_or(Ending::Exit(0), |run| run.effect.ending));
        let Injection { thread, injection, hit, activated, .. } = flipped;
        // a wrong reply although nothing was flipped makes all results unreliable: count it as a control
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
            live: Some(LiveFlip { thread, is_running: running }),
        }
    }

    fn live_summary(&self, live: &Live, flips: Vec<Logged>, remarks: Vec<String>, wall: f64) -> Variant {
        let (tried, requested, running) = (self.tables.tally().tried(), u64::from(live.flips), is_running(live));
        let controls = if live.check.is_some() { BEFORE.into() } else { 0 };
        // no further flip is possible in a process that has ended
        let planned = if running { requested } else { tried };
        let mut variant = self.summary(&Profile::default(), planned, controls);
        variant.missing += planned.saturating_sub(tried);
        variant.remarks = remarks;
        if !running && tried < requested {
            variant.remarks.push(format!("the process has ended after {tried} of {requested} flips"));
        }
        let ran_after_last = flips.last().and_then(|last| last.live).is_some_and(|last| last.is_running);
        if !running && ran_after_last {
            variant.remarks.push("it ended after the last check, because of an earlier flip or on its own".to_owned());
        }
        variant.seconds.wall = wall;
        variant.live = Some(LiveProcess { pid: live.pid, check: live.check.clone(), is_running: running, flips });
        variant
    }
}

fn is_running(live: &Live) -> bool {
    ProcessId { pid: live.pid as u32, start_ticks: live.ticks }.is_alive()
}

/// Whether it is still running after a while.
fn stays_running(live: &Live) -> bool {
    let begin = Instant::now();
    while begin.elapsed() < END_WAIT {
        if !is_running(live) {
            return false;
        }
        std::thread::sleep(POLL);
    }
    true
}

fn has_ended(pid: i32) -> Failure {
    Failure::environment(format!("process {pid} has ended before anything was flipped"))
        .next("ps -e lists running processes")
}

/// The outcome of a check that failed although the process is running.
fn outcome(run: &LocalRun) -> Option<Outcome> {
    let stdout = run.output.streams.first().map(|stream| String::from_utf8_lossy(&stream.bytes).into_owned());
    let printed = stdout.as_deref().and_then(|text| command_judge::parse(text.lines().last()?));
    match run.effect.ending {
        Ending::Hang => Some(Outcome::Otherwise),
        Ending::Signal(_) => None,
        Ending::Exit(_) => printed.filter(|outcome| outcome.manifested()).or(Some(Outcome::Undetected)),
    }
}

/// Describes how a check failed, with the last line of its output.
fn check_failure(run: &LocalRun) -> String {
    let how = match run.effect.ending {
        Ending::Exit(status) => format!("the check exited with status {status}"),
        Ending::Signal(signal) => format!("the check was killed by signal {signal}"),
        Ending::Hang => "the check timed out".to_owned(),
    };
    let stdout = run.output.streams.first().map_or(&[][..], |stream| &stream.bytes);
    let texts = [&run.stderr[..], stdout].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let last = texts.iter().find_map(|text| text.lines().map(str::trim).rfind(|line| !line.is_empty()));
    last.map_or(how.clone(), |last| format!("{how}: {}", last.chars().take(EXCERPT).collect::<String>()))
}
