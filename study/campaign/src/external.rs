//! A disturbance of the user's own instead of flips (SEI §7.2 lowered the processor's voltage): runs of a program are judged while a
//! command acts.
//!
//! Instead of a program that is started each time, a server that runs already may get an input trace each time.
//!
//! Healthy, disturbed, healthy: two undisturbed runs give the golden output, one afterwards must give it again. The disturbance acts
//! on this machine, so nothing is contained here: the program runs as the user's own.

use crate::client::Clients;
use crate::course::{Course, Ended};
use crate::native::{self, Ran};
use crate::run::Progress;
use crate::spec::External;
use bit_flips::protocol::{Output, Profile, Program};
use bit_flips::trace_input::Trace;
use model::campaign::{Logged, Role};
use model::{Failure, Family};
use rustix::process::{Pid, Signal, kill_process_group};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Undisturbed runs before.
const BEFORE: u32 = 2;
const AFTER: u32 = 1;
/// How long a disturbance may take to end after it was asked to.
const ENDING: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(5);

impl Course<'_, '_> {
    /// Runs the program beside a disturbance. Blocks until all is run or `stop` is set. The disturbance ends in any case.
    pub fn run_beside(&mut self, external: &External, mut tell: impl FnMut(Progress)) -> Result<Ended, Failure> {
        self.variant().is_unchanged()?;
        let begin = Instant::now();
        let mut subject = Subject::of(external, &self.variant().program)?;
        tell(Progress::Golden { instructions: 0 });
        let golden = self.undisturbed(&mut subject, external.runs)?;
        let mut disturbance = Disturbance::start(&external.command)?;
        let known = self.log.known(self.index);
        for id in (0..external.runs).filter(|id| !known.contains(id)) {
            if self.stop.load(Ordering::Relaxed) {
                return Ok(Ended::Stopped);
            }
            disturbance.still_acts()?;
            let ran = subject.once()?;
            self.judge_run(id, Role::Disturbed, &golden, ran)?;
            let done = self.tables.tally();
            tell(Progress::Flips { done: done.tried(), total: external.runs.into(), undetected: done.undetected });
        }
        drop(disturbance);
        for id in 0..AFTER {
            let ran = subject.once()?;
            self.judge_run(external.runs + BEFORE + id, Role::Control, &golden, ran)?;
        }
        let runs = u64::from(external.runs);
        let mut variant = self.told(&golden, runs, u64::from(BEFORE + AFTER));
        variant.missing += runs.saturating_sub(self.tables.tally().tried());
        variant.remarks.push(format!("disturbed by: {}", external.command));
        variant.seconds.wall = begin.elapsed().as_secs_f64();
        Ok(Ended::Whole(Box::new(variant)))
    }

    /// What undisturbed runs give; their numbers are from `first_id` on. Refuses a program that does not repeat itself.
    fn undisturbed(&mut self, subject: &mut Subject, first_id: u32) -> Result<Profile, Failure> {
        let first = subject.once()?;
        if let (What::Server(_), true, server) = (&subject.what, first.output.streams.is_empty(), &self.variant().name)
        {
            return Err(Failure::environment(format!("nobody accepts connections at {server}"))
                .next("start the server first, or name the address that it listens on"));
        }
        if first.output.streams.iter().all(|stream| stream.bytes.is_empty()) {
            return Err(Failure::environment("undisturbed, it says nothing: there is nothing to compare with")
                .next("see that the program, or the server, works by itself"));
        }
        let profile = Profile { golden: first.output.clone(), cpu_us: first.effect.cpu_us, ..Profile::default() };
        self.accept(&profile)?;
        self.judge_run(first_id, Role::Control, &profile, first)?;
        for id in 1..BEFORE {
            let ran = subject.once()?;
            let differs = ran.output != profile.golden;
            self.judge_run(first_id + id, Role::Control, &profile, ran)?;
            if differs {
                return Err(Failure::unknown(
                    "the program does not give the same output twice, without any disturbance",
                )
                .why("what a disturbance does cannot be told from chance")
                .next("fix its seed, its clock or its threads, or judge with --judge"));
            }
        }
        Ok(profile)
    }

    fn judge_run(&mut self, id: u32, role: Role, golden: &Profile, ran: Ran) -> Result<(), Failure> {
        let seen: Option<&Output> = Some(&ran.output).filter(|seen| **seen != golden.golden);
        let judgement = self.judge.judge(&golden.golden, seen, None, &ran.effect, &ran.stderr);
        let logged = Logged {
            variant: self.index,
            id,
            role,
            injection: None,
            effect: ran.effect,
            outcome: judgement.outcome,
            deviation: judgement.deviation,
            remark: judgement.remark,
            live: None,
        };
        // a session that goes on makes its controls again
        if self.take(&logged, &golden.golden, seen)? {
            // whoever lowers the voltage must expect the machine to stop at any moment
            self.log.sync()?;
        }
        Ok(())
    }
}

/// What is run again and again.
struct Subject {
    what: What,
    timeout: Duration,
}

enum What {
    Program(Box<Program>),
    Server(Box<Clients>),
}

impl Subject {
    fn of(external: &External, program: &Program) -> Result<Subject, Failure> {
        let timeout = Duration::from_millis(external.timeout_ms);
        let what = match (&external.server, &program.replay) {
            (Some(server), Some(replay)) => {
                let bytes = std::fs::read(&replay.input)
                    .map_err(|e| Failure::request(format!("{} cannot be read: {e}", replay.input.display())))?;
                What::Server(Box::new(Clients::new(server, Trace::parse(&bytes)?)?))
            }
            (None, Some(_)) => {
                return Err(Failure::request("a program under an input trace is not run beside a disturbance")
                    .why("time and randomness are not the machine's own there")
                    .next("start the server yourself and name it with --server HOST:PORT"));
            }
            _ => What::Program(Box::new(program.clone())),
        };
        Ok(Subject { what, timeout })
    }

    fn once(&mut self) -> Result<Ran, Failure> {
        match &mut self.what {
            What::Program(program) => native::run(program, self.timeout),
            What::Server(clients) => {
                let (output, effect) = clients.run(self.timeout);
                Ok(Ran { output, effect, stderr: Vec::new() })
            }
        }
    }
}

/// The user's command, with all that it started. Ends with this value.
struct Disturbance {
    command: String,
    child: Child,
    ended: bool,
}

impl Disturbance {
    fn start(command: &str) -> Result<Disturbance, Failure> {
        let child = Command::new("sh")
            .args(["-c", command])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(|e| Failure::environment(format!("the disturbance cannot be started: {e}")))?;
        Ok(Disturbance { command: command.to_owned(), child, ended: false })
    }

    /// One that set something and ended well acts on; one that failed does not.
    fn still_acts(&mut self) -> Result<(), Failure> {
        match self.child.try_wait() {
            Ok(Some(status)) if !status.success() => {
                Err(Failure::new(Family::Environment, format!("the disturbance '{}' failed: {status}", self.command))
                    .next("try it by itself first"))
            }
            Ok(Some(_)) => {
                self.ended = true;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Disturbance {
    /// It is asked to end, so that it can undo what it did.
    fn drop(&mut self) {
        self.signal(Signal::TERM);
        let begin = Instant::now();
        while !self.ended && begin.elapsed() < ENDING {
            self.ended = !matches!(self.child.try_wait(), Ok(None));
            std::thread::sleep(POLL);
        }
        self.signal(Signal::KILL);
        let _ = self.child.wait();
    }
}
