//! Profiles the undisturbed program: whether it is repeatable, what it writes, and which instructions it executes.

use crate::engine::golden_run::{self, GoldenRun};
use crate::engine::outputs::{CollectedOutput, difference};
use crate::engine::path_difference;
use crate::engine::refusal::Refusal;
use crate::engine::site_info::SiteInfoCache;
use crate::engine::undisturbed_run::{self, UndisturbedRun};
use crate::engine_messages::{Profile, Program};
use crate::inject::Fault;
use crate::plan::PlannedFlip;
use crate::plan::sites::SiteFilter;
use crate::plan::stream::Stream;
use crate::program::executable::ElfProperties;
use crate::program::inspect;
use crate::tracing::blocks::StepResult;
use crate::tracing::code::{BlockId, Code};
use crate::tracing::code_cache::CacheExit;
use crate::tracing::golden::GoldenProcess;
use crate::tracing::syscall_policy::SyscallPolicy;
use model::Failure;
use model::flip::{FlipType, Injection};
use sandbox::Sandbox;
use sandbox::tracee::Stop;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// A program with its golden run.
pub struct ProfiledProgram {
    pub stream: Rc<Stream>,
    pub code: Code,
    pub filter: SiteFilter,
    pub golden_output: CollectedOutput,
    pub cpu: Duration,
    pub profile: Profile,
    /// It starts kernel threads.
    pub has_threads: bool,
    pub site_info: SiteInfoCache,
}

impl ProfiledProgram {
    /// The injection record of a planned flip. Its instruction must be decoded in `code`.
    pub fn injection(&mut self, code: &Code, planned: &PlannedFlip, fault: &Fault) -> Injection {
        self.site_info.injection(planned, fault, code, &mut self.filter.modules.borrow_mut())
    }
}

/// Reports the position of a run in instructions, and how many there are about (0: unknown).
pub type OnProgress<'a> = &'a mut dyn FnMut(u64, u64) -> io::Result<()>;

/// Instructions that a program executes per microsecond of CPU time, for estimates only.
const INSTRUCTIONS_PER_US: u64 = 1_000;

/// Runs the program twice natively, and once more to record its path: all three runs must write the same output. In a
/// code cache it is run once again, and must take the same path. Programs whose every block is stepped are not: their
/// path is checked at the flips.
pub fn profile(sandbox: &Sandbox, program: &Program, on_progress: OnProgress) -> Result<ProfiledProgram, Refusal> {
    let begin = Instant::now();
    let elf = inspect::check(program, sandbox.user)?;
    let UndisturbedRun { output: first, exit_status, stderr, cpu } = undisturbed_run::run(sandbox, program)?;
    let second = undisturbed_run::run(sandbox, program)?;
    let golden = first.output(program);
    if let Some(difference) = difference(&golden, &second.output.output(program)) {
        return Err(Failure::environment("two undisturbed runs of the program write different output")
            .why(difference)
            .next("make its time, seeds and addresses constant; for a server, --replay does")
            .into());
    }
    let mut run = golden_run::start(sandbox, program, None)?;
    let estimate = (cpu.as_micros() as u64 * INSTRUCTIONS_PER_US).clamp(1, program.limits.instructions);
    let (mut stream, replies) = record_stream(&mut run, program, &mut |position| on_progress(position, estimate))?;
    let collected = run.run_dir.collect(program.limits.file_bytes)?;
    if let Some(difference) = difference(&golden, &collected.output(program)) {
        return Err(Failure::environment("the program writes different output when it is stepped")
            .why(difference)
            .next(match run.policy.threads {
                0 => "if it reads its own code, breakpoints disturb it: --stepper step uses none, and is slower",
                _ => "its threads may write in another order when they take turns: let one thread write the results of all",
            })
            .into());
    }
    run.run_dir.remove();
    // the second run may decode code again that the program loads
    let sites = run.golden.code.sites().len() as u64;
    if run.golden.was_cached() {
        let GoldenRun { golden: GoldenProcess { code, .. }, filter, .. } = run;
        run = golden_run::start(sandbox, program, Some((code, filter)))?;
        let total = stream.instructions();
        check_path(&mut run, &stream, &mut |position| on_progress(position, total))?;
        run.run_dir.remove();
    }
    let GoldenRun { golden: GoldenProcess { code, .. }, filter, policy, .. } = run;
    let has_threads = policy.threads > 0;
    let mut profile = Profile {
        instructions: stream.instructions(),
        sites,
        eligible: Vec::new(),
        replies,
        golden,
        exit_status,
        stderr,
        cpu_us: cpu.as_micros() as u64,
        seconds: begin.elapsed().as_secs_f64(),
        remarks: remarks(program, &elf, &policy),
    };
    tracing::debug!(
        program = %program.argv[0],
        instructions = profile.instructions,
        sites = profile.sites,
        threads = policy.threads,
        seconds = profile.seconds,
        "golden run recorded"
    );
    if let Some(reply) = program.sites.reply {
        stream.restrict(&code, profile.work_for(reply)?);
    }
    profile.eligible = FlipType::ALL.iter().map(|kind| (*kind, stream.eligible(&code, *kind))).collect();
    if profile.eligible.iter().all(|(_, count)| *count == 0) {
        return Err(Failure::request("the site filter excludes every instruction that the program executes")
            .why("no instruction satisfies all of --symbol, --library, --handler, --except and --reply")
            .next("omit one of them")
            .into());
    }
    let (golden_output, site_info) = (collected, SiteInfoCache::default());
    Ok(ProfiledProgram { stream: Rc::new(stream), code, filter, golden_output, cpu, profile, has_threads, site_info })
}

fn remarks(program: &Program, elf: &ElfProperties, policy: &SyscallPolicy) -> Vec<String> {
    let stripped = elf.stripped.then(|| format!("{} is stripped: its functions have no names", program.argv[0]));
    let started = match policy.threads {
        0 => None,
        1 => Some("a thread".to_owned()),
        n => Some(format!("{n} threads")),
    };
    let threads = started.map(|started| {
        format!(
            "it starts {started}: threads take turns up to a flip and run freely after it; the controls show the effect"
        )
    });
    stripped.into_iter().chain(threads).collect()
}

/// Steps the program to its end. Also returns its position at each reply.
fn record_stream(
    run: &mut GoldenRun,
    program: &Program,
    on_progress: &mut dyn FnMut(u64) -> io::Result<()>,
) -> Result<(Stream, Vec<u64>), Refusal> {
    let limit = program.limits.instructions;
    let mut stream = Stream::default();
    let mut replies = Vec::new();
    let mut ran = Vec::new();
    loop {
        on_progress(stream.instructions())?;
        if stream.instructions() > limit {
            return Err(Failure::environment(format!("the program executes more than {limit} instructions"))
                .why("the path of a run is stored, and later runs are compared with it")
                .next("give it less input, or raise --max-instructions")
                .into());
        }
        if run.golden.has_cache() {
            ran.clear();
            let exit = run.golden.run_translated(u64::MAX, &mut run.filter, &mut ran)?;
            stream.extend(&run.golden.code, &ran);
            if exit == CacheExit::Limit {
                continue;
            }
        }
        let (result, outside) = run.advance(u64::MAX)?;
        if std::mem::take(&mut run.policy.shares) {
            run.descriptors(program)?;
        }
        if std::mem::take(&mut run.policy.replied) {
            replies.push(run.golden.position);
        }
        match result {
            StepResult::Ran(block) => stream.push(block, outside),
            StepResult::Ended(stop, block) => {
                stream.push(block, outside);
                return match stop {
                    Stop::Exited(_) => Ok((stream, replies)),
                    stop => Err(Failure::environment("the undisturbed program ends differently when it is stepped")
                        .why(format!("{} after {} instructions", stop.description(), stream.instructions()))
                        .next("it may depend on time or memory: run it by hand with less of both")
                        .into()),
                };
            }
        }
    }
}

/// Runs the program a second time, to its end. Fails with the first block that the recorded run does not have there.
fn check_path(
    run: &mut GoldenRun,
    stream: &Stream,
    on_progress: &mut dyn FnMut(u64) -> io::Result<()>,
) -> Result<(), Refusal> {
    let mut ran = Vec::new();
    let mut entry = 0;
    loop {
        on_progress(run.golden.position)?;
        if run.golden.has_cache() {
            ran.clear();
            let exit = run.golden.run_translated(u64::MAX, &mut run.filter, &mut ran)?;
            check_blocks(run, stream, entry, &ran)?;
            entry += ran.len();
            if exit == CacheExit::Limit {
                continue;
            }
        }
        let (block, has_ended) = match run.advance(u64::MAX)?.0 {
            StepResult::Ran(block) => (block, false),
            StepResult::Ended(_, block) => (block, true),
        };
        check_blocks(run, stream, entry, &[block.block])?;
        if block.repeats.unwrap_or(1) != stream.repeats(entry) {
            return Err(path_difference::refusal(run, stream, entry, &part(run, &[block.block]), 0).into());
        }
        entry += 1;
        if has_ended {
            return match entry == stream.len() {
                true => Ok(()),
                false => Err(path_difference::refusal(run, stream, entry, &Stream::default(), 0).into()),
            };
        }
    }
}

fn check_blocks(run: &GoldenRun, stream: &Stream, entry: usize, ran: &[BlockId]) -> Result<(), Refusal> {
    match stream.first_difference(&run.golden.code, entry, ran) {
        None => Ok(()),
        Some(index) => Err(path_difference::refusal(run, stream, entry + index, &part(run, ran), index).into()),
    }
}

fn part(run: &GoldenRun, ran: &[BlockId]) -> Stream {
    let mut part = Stream::default();
    part.extend(&run.golden.code, ran);
    part
}
