//! Starts the golden process and steps it, with everything that the engine keeps about it.

use crate::engine::path_difference;
use crate::engine::refusal::Refusal;
use crate::engine::run_dir::{self, RunDir};
use crate::engine_messages::{Program, RECORDS_DESCRIPTOR, Stepper};
use crate::plan::sites::{HandlerTracker, SiteFilter};
use crate::plan::stream::{Cursor, Stream};
use crate::program::mappings::Mapping;
use crate::program::modules::Modules;
use crate::tracing::blocks::StepResult;
use crate::tracing::code::{Code, SiteId};
use crate::tracing::code_cache::CacheExit;
use crate::tracing::descriptors::Descriptors;
use crate::tracing::fork::{ForkFiles, Gadget};
use crate::tracing::golden::GoldenProcess;
use crate::tracing::step::BREAKPOINT;
use crate::tracing::syscall_policy::SyscallPolicy;
use model::Failure;
use sandbox::tracee::{Registers, Stop, Tracee};
use sandbox::{Launched, Limits, Sandbox, VirtualHost};
use std::collections::HashSet;

/// CPU time limit of a stepped program, which spends most of it at its stops. Only a last resort: its instructions are
/// limited.
const STEPPED_SECONDS: u64 = 24 * 3600;

/// With fewer blocks to run, stepping them costs less.
const CACHE_BLOCKS_MIN: u64 = 3;

/// A golden process that is stopped, with the state needed to step and fork it.
pub struct GoldenRun {
    pub golden: GoldenProcess,
    pub filter: SiteFilter,
    pub policy: SyscallPolicy,
    pub handlers: HandlerTracker,
    pub gadget: Gadget,
    pub run_dir: RunDir,
    /// Where it is in the stream of the profile.
    cursor: Cursor,
}

/// Starts the program, stopped before its first instruction, with its records' file open where the shim expects it.
pub fn launch(sandbox: &Sandbox, program: &Program, run_dir: &RunDir, cpu_seconds: u64) -> Result<Launched, Refusal> {
    let has_records = program.replay.is_some();
    let limits = &program.limits;
    let launched = sandbox::launch(
        sandbox,
        &sandbox::Program {
            argv: &program.argv,
            env: &program.env,
            directory: &run_dir.work,
            stdin: program.stdin.as_deref(),
            stdout: if has_records { &run_dir.stdout } else { &run_dir.main },
            stderr: &run_dir.stderr,
            limits: Limits {
                memory_bytes: limits.memory_bytes,
                file_bytes: limits.file_bytes,
                processes: limits.processes,
                cpu_seconds,
            },
        },
    )?;
    if has_records {
        let registers = launched.tracee.registers()?;
        let files = ForkFiles {
            work: run_dir.work.clone(),
            current_dir: Some(run_dir.work.clone()),
            fresh: vec![(RECORDS_DESCRIPTOR, run_dir.main.clone())],
        };
        Gadget(launched.gadget).isolate(&launched.tracee, &registers, &files, &Descriptors::default())?;
    }
    Ok(launched)
}

/// Starts the program and runs it to its entry: what the dynamic linker executes before is not part of the golden run.
/// `decoded`: the code of an earlier golden run.
pub fn start(sandbox: &Sandbox, program: &Program, decoded: Option<(Code, SiteFilter)>) -> Result<GoldenRun, Refusal> {
    let run_dir = RunDir::create(sandbox, run_dir::ALONE, &program.files)?;
    let Launched { tracee, entry, gadget } = launch(sandbox, program, &run_dir, STEPPED_SECONDS)?;
    let mut host = VirtualHost::new(program.replay.is_some());
    run_to_entry(&tracee, &mut host, entry)?;
    let mut modules = Modules::of(&tracee)?;
    if let Some(code) = modules.mappings().0.iter().find(|mapping| mapping.writable && mapping.executable) {
        return Err(writable_code(code).into());
    }
    for name in program.sites.symbols.iter().chain(&program.sites.handlers) {
        if modules.addresses(name).is_empty() {
            return Err(Failure::request(format!("no function is called {name}"))
                .why("functions are found by the symbols of the program and its libraries")
                .next("name one that `nm` or `nm -D` lists")
                .into());
        }
    }
    let entries: HashSet<u64> = program.sites.handlers.iter().flat_map(|name| modules.addresses(name)).collect();
    let single = program.stepper == Stepper::Step;
    let (code, filter) = decoded
        .unwrap_or_else(|| (Code::new(single, entries.clone()), SiteFilter::new(program.sites.clone(), modules)));
    let mut golden = GoldenProcess::at_entry(tracee, host, code, single)?;
    let gadget = Gadget(gadget);
    golden.kernel_state.cleared_at_exit = gadget.cleared_at_exit(&golden.tracee)?;
    if program.stepper == Stepper::Cache && program.sites.handlers.is_empty() {
        golden.map_cache(gadget)?;
    }
    let policy = SyscallPolicy::new(program);
    Ok(GoldenRun {
        golden,
        filter,
        policy,
        handlers: HandlerTracker::new(entries),
        gadget,
        run_dir,
        cursor: Cursor::default(),
    })
}

/// Runs the dynamic linker natively.
fn run_to_entry(tracee: &Tracee, host: &mut VirtualHost, entry: u64) -> Result<(), Refusal> {
    let mut original = [0];
    tracee.read(entry, &mut original)?;
    tracee.write(entry, &[BREAKPOINT])?;
    let stop = loop {
        match tracee.resume_and_wait(0)? {
            Stop::Event(libc::PTRACE_EVENT_SECCOMP) if sandbox::is_answered(tracee)? => {
                if let Some(stop) = sandbox::answer_and_complete(host, tracee, tracee.pid)? {
                    break stop;
                }
            }
            Stop::Signal(libc::SIGSEGV) if host.emulate_counter(tracee)? => {}
            stop => break stop,
        }
    };
    if !stop.trapped() {
        return Err(Failure::environment("the program does not reach its first instruction")
            .why(format!("{} in the dynamic linker: a library may be missing", stop.description()))
            .next("ldd lists the libraries it needs; pass what else it needs by --env and --file")
            .into());
    }
    tracee.write(entry, &original)?;
    let registers = tracee.registers()?;
    tracee.set_registers(&Registers { rip: entry, ..registers })?;
    Ok(())
}

/// Code is decoded once, so it must not change.
fn writable_code(code: &Mapping) -> Failure {
    let name = if code.name.is_empty() { "anonymous memory" } else { &code.name };
    let why = format!("{name} at {:#x} is both writable and executable: its code may change while it runs", code.start);
    Failure::environment("the program cannot be repeated exactly")
        .why(why)
        .next("link it with -z noexecstack and without -N; programs that generate code at run time are not supported")
}

impl GoldenRun {
    /// The next instruction.
    pub fn next_site(&mut self) -> Result<SiteId, Refusal> {
        let ip = self.golden.ip();
        let block = self.golden.code.block_from(ip, &self.golden.tracee, &mut self.filter)?;
        Ok(self.golden.code.block(block).sites[0])
    }

    /// The open descriptors that a fork must reopen. Fails if there is one that forks would share.
    pub fn descriptors(&self, program: &Program) -> Result<Descriptors, Refusal> {
        let fresh: &[i32] = match program.replay {
            Some(_) => &[libc::STDERR_FILENO, RECORDS_DESCRIPTOR],
            None => &[libc::STDOUT_FILENO, libc::STDERR_FILENO],
        };
        let found = Descriptors::of(self.golden.tracee.pid, &self.run_dir.work, fresh)?;
        // the C library opens its own sockets to read network interfaces; a server's sockets are virtual, and there is
        // no network
        let harmless = |shared: &&String| program.replay.is_some() && shared.contains("socket:");
        match found.shared.iter().find(|shared| !harmless(shared)) {
            None => Ok(found),
            Some(shared) => Err(Failure::environment("the program has an open descriptor that its forks would share")
                .why(format!("descriptor {shared}"))
                .next("files with a name can be reopened; a server runs without real sockets under --replay")
                .into()),
        }
    }

    /// Runs to a position of the stream that its profile recorded, and calls `on_stop` often meanwhile. Returns
    /// false if the program ends before.
    pub fn advance_to(
        &mut self,
        stream: &Stream,
        position: u64,
        on_stop: &mut dyn FnMut() -> Result<(), Refusal>,
    ) -> Result<bool, Refusal> {
        let mut ran = Vec::new();
        while self.golden.position < position {
            stream.seek(&self.golden.code, &mut self.cursor, self.golden.position);
            let here = self.cursor;
            let mut target = here;
            stream.seek(&self.golden.code, &mut target, position);
            let blocks = (target.entry - here.entry) as u64;
            if here.begin == self.golden.position && blocks >= CACHE_BLOCKS_MIN && self.golden.has_cache() {
                ran.clear();
                let exit = self.golden.run_translated(blocks, &mut self.filter, &mut ran)?;
                if let Some(index) = stream.first_difference(&self.golden.code, here.entry, &ran) {
                    let mut again = Stream::default();
                    again.extend(&self.golden.code, &ran);
                    return Err(path_difference::refusal(self, stream, here.entry + index, &again, index).into());
                }
                on_stop()?;
                if exit == CacheExit::Limit {
                    continue;
                }
            }
            // to the end of the block, where the profile may have switched to another thread
            stream.seek(&self.golden.code, &mut self.cursor, self.golden.position);
            let end = stream.end_of(&self.golden.code, self.cursor).unwrap_or(u64::MAX).min(position);
            if self.golden.position >= position {
                break;
            }
            if let (StepResult::Ended(..), _) = self.advance(end - self.golden.position)? {
                return Ok(false);
            }
            on_stop()?;
        }
        Ok(true)
    }

    /// Runs one block. The second value is whether it was outside the selected handlers.
    pub fn advance(&mut self, limit: u64) -> Result<(StepResult, bool), Refusal> {
        let outside = self.handlers.is_outside(self.golden.tracee.pid, self.golden.registers());
        let result = self.golden.advance(limit, &mut self.filter, &mut self.policy)?;
        if std::mem::take(&mut self.policy.code_changed) {
            self.filter.modules.borrow_mut().refresh(self.golden.tracee.pid)?;
        }
        Ok((result, outside))
    }
}
