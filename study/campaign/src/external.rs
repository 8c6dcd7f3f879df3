//! The user's own disturbance instead of flips (SEI §7.2 lowered the processor's voltage): judges runs of a program
//! while a command acts.
//!
//! Instead of a program that is started for each run, a running server may get the input trace in each run.
//!
//! Healthy, disturbed, healthy: two undisturbed runs produce the golden output, and one afterwards must produce it
//! again. The disturbance acts on this machine, so nothing is contained: the program runs as the current user.

use crate::local_run::{self, LocalRun};
use crate::replay_client::ReplayClient;
use crate::spec::External;
use crate::variant_run::{Completion, Progress, VariantRun};
use bit_flips::engine_messages::{Profile, Program};
use model::campaign::{Logged, Role};
use model::flip::{Ending, Output};
use model::replay::InputTrace;
use model::{Failure, Family};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use target::{CommandGuard, GuardedChild};

/// Undisturbed runs before.
const BEFORE: u32 = 2;
const AFTER: u32 = 1;
/// How long a disturbance may take to end after SIGTERM.
const END_TIMEOUT: Duration = Duration::from_secs(5);

impl VariantRun<'_, '_> {
    /// Runs the program during the disturbance. Blocks until all runs are complete or `stop` is set. The disturbance
    /// ends in any case, also if this process is killed.
    pub fn run_external(
        &mut self,
        external: &External,
        guard: &CommandGuard,
        mut on_progress: impl FnMut(Progress),
    ) -> Result<Completion, Failure> {
        self.variant().check_unchanged()?;
        let begin = Instant::now();
        let mut subject = Subject::of(external, &self.variant().program, guard)?;
        on_progress(Progress::Golden { instructions: 0, of: 0 });
        let golden = self.undisturbed(&mut subject, external.runs)?;
        let mut disturbance = Disturbance::start(guard, &external.command)?;
        let logged = self.log.logged(self.index);
        for id in (0..external.runs).filter(|id| !logged.contains(id)) {
            if self.stop.load(Ordering::Relaxed) {
                return Ok(Completion::Stopped);
            }
            disturbance.check_running()?;
            let run = subject.run()?;
            self.judge_run(id, Role::Disturbed, &golden, run)?;
            let tally = self.tables.tally();
            on_progress(Progress::Flips {
                done: tally.tried(),
                total: external.runs.into(),
                undetected: tally.undetected,
            });
        }
        drop(disturbance);
        for id in 0..AFTER {
            let run = subject.run()?;
            self.judge_run(external.runs + BEFORE + id, Role::Control, &golden, run)?;
        }
        let runs = u64::from(external.runs);
        let mut variant = self.summary(&golden, runs, u64::from(BEFORE + AFTER));
        variant.missing += runs.saturating_sub(self.tables.tally().tried());
        variant.remarks.push(format!("disturbed by: {}", external.command));
        variant.seconds.wall = begin.elapsed().as_secs_f64();
        Ok(Completion::Complete(Box::new(variant)))
    }

    /// Runs the program undisturbed, with ids from `first_id` on. Refuses a program that is not repeatable.
    fn undisturbed(&mut self, subject: &mut Subject<'_>, first_id: u32) -> Result<Profile, Failure> {
        let first = subject.run()?;
        if let (SubjectKind::Server(_), true, server) =
            (&subject.kind, first.output.streams.is_empty(), &self.variant().name)
        {
            return Err(Failure::environment(format!("no server accepts connections at {server}"))
                .next("start the server first, or name the address that it listens on"));
        }
        let exit_status = match first.effect.ending {
            Ending::Exit(status) => status,
            Ending::Signal(signal) => return Err(incomplete(&format!("it is killed by signal {signal}"))),
            Ending::Hang => return Err(incomplete("it is not done before the timeout")),
        };
        let profile = Profile {
            golden: first.output.clone(),
            exit_status,
            stderr: String::from_utf8_lossy(&first.stderr).into_owned(),
            cpu_us: first.effect.cpu_us,
            ..Profile::default()
        };
        self.accept(&profile)?;
        self.judge_run(first_id, Role::Control, &profile, first)?;
        for id in 1..BEFORE {
            let run = subject.run()?;
            let differs = run.output != profile.golden;
            self.judge_run(first_id + id, Role::Control, &profile, run)?;
            if differs {
                return Err(Failure::unknown("two undisturbed runs of the program write different output")
                    .why("the effect of the disturbance cannot be distinguished from chance")
                    .next("make its seed, clock and threads constant, or judge with --judge"));
            }
        }
        Ok(profile)
    }

    fn judge_run(&mut self, id: u32, role: Role, golden: &Profile, run: LocalRun) -> Result<(), Failure> {
        let deviating: Option<&Output> = Some(&run.output).filter(|output| **output != golden.golden);
        let judgment = self.judge.judge(&golden.golden, deviating, None, &run.effect, &run.stderr);
        let logged = Logged {
            variant: self.index,
            id,
            role,
            injection: None,
            effect: run.effect,
            outcome: judgment.outcome,
            deviation: judgment.deviation,
            remark: judgment.remark,
            live: None,
        };
        // a resumed session repeats its controls
        if self.record(&logged, &golden.golden, deviating)? {
            // the disturbance may crash the machine at any moment
            self.log.sync()?;
        }
        Ok(())
    }
}

fn incomplete(why: &str) -> Failure {
    Failure::environment("the undisturbed run does not complete")
        .why(format!("{why}, and disturbed runs can be compared only with a complete one"))
        .next("check that the program, or the server, works undisturbed; --run-timeout-ms gives it more time")
}

/// The program or server under test.
struct Subject<'a> {
    guard: &'a CommandGuard,
    kind: SubjectKind,
    timeout: Duration,
}

enum SubjectKind {
    Program(Box<Program>),
    Server(Box<ReplayClient>),
}

impl<'a> Subject<'a> {
    fn of(external: &External, program: &Program, guard: &'a CommandGuard) -> Result<Subject<'a>, Failure> {
        let timeout = Duration::from_millis(external.timeout_ms);
        let kind = match (&external.server, &program.replay) {
            (Some(server), Some(replay)) => {
                let bytes = std::fs::read(&replay.input)
                    .map_err(|e| Failure::request(format!("{} cannot be read: {e}", replay.input.display())))?;
                SubjectKind::Server(Box::new(ReplayClient::new(server, InputTrace::parse(&bytes)?)?))
            }
            (None, Some(_)) => {
                return Err(Failure::request("a program with an input trace cannot run during a disturbance")
                    .why("its time and randomness are virtual")
                    .next("start the server yourself and name it with --server HOST:PORT"));
            }
            _ => SubjectKind::Program(Box::new(program.clone())),
        };
        Ok(Subject { guard, kind, timeout })
    }

    fn run(&mut self) -> Result<LocalRun, Failure> {
        match &mut self.kind {
            SubjectKind::Program(program) => local_run::run_program(self.guard, program, self.timeout),
            SubjectKind::Server(client) => {
                let (output, effect) = client.run(self.timeout);
                Ok(LocalRun { output, effect, stderr: Vec::new() })
            }
        }
    }
}

/// The user's command and all processes it starts. Ended when dropped.
struct Disturbance<'a> {
    guard: &'a CommandGuard,
    command: String,
    guarded: GuardedChild<'a>,
}

impl<'a> Disturbance<'a> {
    fn start(guard: &'a CommandGuard, command: &str) -> Result<Disturbance<'a>, Failure> {
        let mut shell = Command::new("sh");
        guard.mark(shell.args(["-c", command]).stdin(Stdio::null()).stdout(Stdio::null()));
        let guarded = guard
            .spawn(&mut shell)
            .map_err(|e| Failure::environment(format!("the disturbance cannot be started: {e}")))?;
        Ok(Disturbance { guard, command: command.to_owned(), guarded })
    }

    /// Fails if the command failed. A command may set something and exit successfully; its effect then continues.
    fn check_running(&mut self) -> Result<(), Failure> {
        match self.guarded.child.try_wait() {
            Ok(Some(status)) if !status.success() => {
                Err(Failure::new(Family::Environment, format!("the disturbance '{}' failed: {status}", self.command))
                    .next("try it by itself first"))
            }
            _ => Ok(()),
        }
    }
}

impl Drop for Disturbance<'_> {
    /// Sends SIGTERM first, so that it can undo its changes.
    fn drop(&mut self) {
        self.guard.end_marked(&self.guarded, END_TIMEOUT);
        let _ = self.guarded.child.wait();
    }
}
