//! Injects the flips of a campaign: the golden process advances from point to point, and its forks are disturbed and
//! run to their end.

mod exhaustive;
mod hold;

use crate::engine::PROGRESS_EVERY;
use crate::engine::children::cpu_seconds;
use crate::engine::cpu_affinity::Cores;
use crate::engine::disturbed_run::DisturbedRun;
use crate::engine::golden_run::{self, GoldenRun};
use crate::engine::path_difference;
use crate::engine::profile::ProfiledProgram;
use crate::engine::refusal::Refusal;
use crate::engine::run_dir::{self, RunDir};
use crate::engine::supervisor::{EndedRun, FaultListener as _, PendingFlip, RunLimits, Supervisor};
use crate::engine_messages::{Draw, Injected, Method, Program, Reply, Timings, Weight};
use crate::inject::{NextAction, apply};
use crate::plan::{PlannedFlip, plan};
use crate::tracing::code::Code;
use crate::tracing::descriptors::Descriptors;
use crate::tracing::threads::{MAX_THREADS, StoppedProcess};
use model::flip::{Crash, Effect};
use sandbox::Sandbox;
use std::collections::{HashMap, HashSet};
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Concurrent forks: enough to keep two processors busy while the golden process is stepped.
const FORKS: usize = 3;
/// How often forks are looked after while the golden process is run.
const HANDLE_EVERY: Duration = Duration::from_millis(1);
/// A run hangs after this much wall time.
const WALL_MAX: Duration = Duration::from_secs(30);
/// CPU time that threads may spin for each other on one processor, where undisturbed ones may have spun less.
const SPIN_MAX: Duration = Duration::from_secs(1);

/// Sends a reply to the tool.
pub type Send<'a> = &'a mut dyn FnMut(&Reply) -> io::Result<()>;

/// Removes those with an id in `skip` and, if `only` is not empty, those with an id that is not in it.
fn select<T>(mut all: Vec<T>, skip: &[u32], only: &[u32], id: impl Fn(&T) -> u32) -> Vec<T> {
    let [skip, only] = [skip, only].map(|ids| ids.iter().copied().collect::<HashSet<u32>>());
    all.retain(|one| !skip.contains(&id(one)) && (only.is_empty() || only.contains(&id(one))));
    all
}

pub struct Injector<'a> {
    sandbox: &'a Sandbox,
    program: &'a Program,
    profiled: &'a mut ProfiledProgram,
    cores: &'a mut Cores,
    send: Send<'a>,
    /// Directories that no fork uses.
    free_run_dirs: Vec<RunDir>,
    supervisor: Supervisor<DisturbedRun>,
    timings: Timings,
    last_progress: Instant,
    /// CPU time of the engine and its children at the start.
    cpu_before: f64,
    /// The flips that each class represents, by id.
    weights: HashMap<u32, Vec<Weight>>,
}

impl<'a> Injector<'a> {
    pub fn new(
        sandbox: &'a Sandbox,
        program: &'a Program,
        profiled: &'a mut ProfiledProgram,
        cores: &'a mut Cores,
        send: Send<'a>,
    ) -> Result<Injector<'a>, Refusal> {
        let limits = &program.limits;
        let spin = if profiled.has_threads { SPIN_MAX } else { Duration::ZERO };
        let cpu = (profiled.cpu * limits.hang_times).max(Duration::from_millis(limits.hang_ms)).max(spin);
        let supervisor = Supervisor::new(RunLimits { cpu, wall: WALL_MAX, threads: MAX_THREADS });
        let free_run_dirs = (0..FORKS)
            .map(|index| RunDir::create(sandbox, &run_dir::of_fork(index), &[]))
            .collect::<io::Result<_>>()?;
        Ok(Injector {
            sandbox,
            program,
            profiled,
            cores,
            send,
            free_run_dirs,
            supervisor,
            timings: Timings::default(),
            last_progress: Instant::now(),
            cpu_before: cpu_seconds(),
            weights: HashMap::new(),
        })
    }

    /// Injects the flips of a draw except those in `skip`, or only those in `only`.
    pub fn inject(mut self, draw: &Draw, method: Method, skip: &[u32], only: &[u32]) -> Result<Timings, Refusal> {
        let begin = Instant::now();
        let planned = plan(&self.profiled.stream, &self.profiled.code, draw);
        let planned = select(planned, skip, only, |planned| planned.id);
        match method {
            Method::Fork => self.inject_in_forks(&planned)?,
            Method::Fresh => planned.iter().try_for_each(|planned| self.inject_in_fresh_process(planned))?,
        }
        self.finish(begin)
    }

    fn finish(mut self, begin: Instant) -> Result<Timings, Refusal> {
        while self.supervisor.running() > 0 {
            self.handle_ended(Duration::from_secs(1))?;
        }
        for run_dir in &self.free_run_dirs {
            run_dir.remove();
        }
        self.timings.wall = begin.elapsed().as_secs_f64();
        self.timings.profile = self.profiled.profile.seconds;
        self.timings.cpu = cpu_seconds() - self.cpu_before;
        tracing::debug!(wall_s = self.timings.wall, cpu_s = self.timings.cpu, "flips done");
        Ok(self.timings)
    }

    fn inject_in_forks(&mut self, planned: &[PlannedFlip]) -> Result<(), Refusal> {
        if planned.is_empty() {
            return Ok(());
        }
        let mut run = self.start()?;
        let mut descriptors = Descriptors::default();
        for planned in planned {
            self.advance_to(&mut run, planned)?;
            path_difference::check_at_flip(&run, planned.position, planned.ip)?;
            while self.free_run_dirs.is_empty() {
                self.handle_ended(Duration::from_secs(1))?;
            }
            let forking = Instant::now();
            if std::mem::take(&mut run.policy.descriptors_changed) {
                descriptors = run.descriptors(self.program)?;
            }
            self.fork(&run, &descriptors, planned)?;
            self.timings.fork += forking.elapsed().as_secs_f64();
            self.send_progress(run.golden.position)?;
        }
        run.golden.kill()?;
        run.run_dir.remove();
        self.return_code(run);
        Ok(())
    }

    /// Starts a golden process at its entry. It takes the decoded code with it; see [`Injector::return_code`].
    fn start(&mut self) -> Result<GoldenRun, Refusal> {
        let code = std::mem::replace(&mut self.profiled.code, Code::new(false, HashSet::new()));
        golden_run::start(self.sandbox, self.program, Some((code, self.profiled.filter.clone())))
    }

    fn return_code(&mut self, run: GoldenRun) {
        self.profiled.code = run.golden.code;
    }

    fn advance_to(&mut self, run: &mut GoldenRun, planned: &PlannedFlip) -> Result<(), Refusal> {
        let stepping = Instant::now();
        let stream = Rc::clone(&self.profiled.stream);
        let mut handled = Instant::now();
        let reached = run.advance_to(&stream, planned.position, &mut || {
            if handled.elapsed() < HANDLE_EVERY {
                return Ok(());
            }
            handled = Instant::now();
            self.handle_ended(Duration::ZERO)
        })?;
        if !reached {
            return self.handle_ended(Duration::ZERO);
        }
        // decode the next instruction: the program may have loaded code that has not run yet
        run.next_site()?;
        self.timings.step += stepping.elapsed().as_secs_f64();
        self.handle_ended(Duration::ZERO)
    }

    fn fork(&mut self, run: &GoldenRun, descriptors: &Descriptors, planned: &PlannedFlip) -> Result<(), Refusal> {
        let run_dir = self.free_run_dirs.pop().expect("the caller waits for one");
        run_dir.reset(self.sandbox, &run.run_dir.work)?;
        let before_fork = std::fs::metadata(&run.run_dir.main)?.len() as usize;
        let gadget = run.gadget;
        let child = gadget.fork(&run.golden)?;
        let current_dir = std::fs::read_link(format!("/proc/{}/cwd", run.golden.tracee.pid))?;
        let files = run_dir.fork_files(self.program, &current_dir, &run.run_dir.work);
        gadget.isolate(&child, run.golden.registers(), &files, descriptors)?;
        self.cores.spread(child.pid);
        let other_threads =
            if self.profiled.has_threads { gadget.clone_threads(&run.golden, &child)? } else { Vec::new() };
        let stopped =
            StoppedProcess { process: child.pid, thread: child, other_threads, host: run.golden.host.clone() };
        self.apply_fault(run, stopped, planned, run_dir, before_fork)
    }

    fn apply_fault(
        &mut self,
        run: &GoldenRun,
        mut stopped: StoppedProcess,
        planned: &PlannedFlip,
        run_dir: RunDir,
        before_fork: usize,
    ) -> Result<(), Refusal> {
        let code = &run.golden.code;
        let instruction = code.instruction_at(planned.ip).expect("it was checked to be next");
        let injection = planned.fault.map(|fault| self.profiled.injection(code, planned, &fault));
        let mut disturbed = DisturbedRun::new(planned.id, injection, run_dir, before_fork);
        let Some(fault) = &planned.fault else {
            return Ok(self.supervisor.add(stopped, disturbed, 0)?);
        };
        let applied = apply(&stopped.thread, Some(&mut stopped.host), &instruction, fault)?;
        disturbed.fault_applied(applied.hit, applied.activated);
        match applied.next {
            NextAction::Resume(signal) => self.supervisor.add(stopped, disturbed, signal)?,
            NextAction::Pending(stop, fault) => {
                let pending = PendingFlip { fault, instruction };
                if let Some(ended) = self.supervisor.add_pending(stopped, disturbed, pending, stop)? {
                    self.report(ended)?;
                }
            }
            NextAction::Ended(_) if stopped.thread.pid != stopped.process => {
                self.supervisor.add_without_thread(stopped, disturbed);
            }
            NextAction::Ended(stop) => self.report(EndedRun::immediate(disturbed, stop))?,
        }
        Ok(())
    }

    fn inject_in_fresh_process(&mut self, planned: &PlannedFlip) -> Result<(), Refusal> {
        let mut run = self.start()?;
        self.advance_to(&mut run, planned)?;
        path_difference::check_at_flip(&run, planned.position, planned.ip)?;
        run.golden.unmap_cache(run.gadget)?;
        let stopped = run.golden.stopped_process()?;
        self.apply_fault(&run, stopped, planned, run.run_dir.clone(), 0)?;
        while self.supervisor.running() > 0 {
            self.handle_ended(Duration::from_secs(1))?;
        }
        // reporting the run has added its directory to those of the forks, where it does not belong
        self.free_run_dirs.retain(|run_dir| run_dir.main != run.run_dir.main);
        run.run_dir.remove();
        self.return_code(run);
        Ok(())
    }

    fn handle_ended(&mut self, timeout: Duration) -> Result<(), Refusal> {
        for ended in self.supervisor.ended(timeout)? {
            self.report(ended)?;
        }
        Ok(())
    }

    /// Compares the output of a run with the golden one and sends the result.
    fn report(&mut self, ended: EndedRun<DisturbedRun>) -> Result<(), Refusal> {
        self.timings.run += ended.cpu.as_secs_f64();
        let judging = Instant::now();
        let deviation = ended.run.deviation(self.program, self.profiled)?;
        let (output, written) = deviation.unzip();
        let DisturbedRun { id, injection, hit, activated, run_dir, .. } = ended.run;
        let mut modules = self.profiled.filter.modules.borrow_mut();
        let effect = Effect {
            hit,
            activated,
            ending: ended.ending,
            crash: ended.crash.map(|(signal, ip)| Crash { signal, ip, symbol: modules.symbol(ip).map(str::to_owned) }),
            cpu_us: ended.cpu.as_micros() as u64,
            refused_calls: ended.refused_calls,
        };
        drop(modules);
        let stderr = run_dir.stderr();
        self.free_run_dirs.push(run_dir);
        self.timings.judge += judging.elapsed().as_secs_f64();
        let injected = Injected {
            injection,
            id,
            stands_for: self.weights.remove(&id).unwrap_or_default(),
            effect,
            output,
            written,
            stderr,
        };
        Ok((self.send)(&Reply::Injected(Box::new(injected)))?)
    }

    fn send_progress(&mut self, position: u64) -> Result<(), Refusal> {
        if self.last_progress.elapsed() >= PROGRESS_EVERY {
            self.last_progress = Instant::now();
            let of = self.profiled.profile.instructions;
            (self.send)(&Reply::Progress { position, of })?;
        }
        Ok(())
    }
}
