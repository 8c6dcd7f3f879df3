//! The undisturbed program: does it repeat itself, what does it write, and which instructions does it run?

use crate::code::{Code, SiteId};
use crate::contain::{self, Contained, Launched, Place};
use crate::descriptors::Descriptors;
use crate::executable::Facts;
use crate::fork::{Gadget, Slot};
use crate::golden::{BREAKPOINT, Golden, Went};
use crate::inspect;
use crate::mappings::Mapping;
use crate::modules::Modules;
use crate::native::native;
use crate::outputs::{Collected, difference};
use crate::place::{RECORDS, Room};
use crate::protocol::{Profile, Program, Stepper};
use crate::refusal::Refusal;
use crate::said::Sayings;
use crate::sites::{Filter, Handlers};
use crate::stream::Stream;
use crate::tracee::{Registers, Stop, Tracee};
use crate::watch::Watch;
use model::Failure;
use model::flip::FlipType;
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// CPU time of a stepped program, most of it spent at its stops: its instructions are counted, this is only a last bound.
const STEPPED_SECONDS: u64 = 24 * 3600;

/// A program that is stopped at its entry, with everything to step it.
pub struct Started {
    pub golden: Golden,
    pub filter: Filter,
    pub watch: Watch,
    pub handlers: Handlers,
    pub gadget: Gadget,
    pub room: Room,
}

/// What the golden run was.
pub struct Known {
    pub stream: Stream,
    pub code: Code,
    pub filter: Filter,
    pub collected: Collected,
    pub cpu: Duration,
    pub profile: Profile,
    /// It starts threads of the kernel's.
    pub threads: bool,
    pub said: Sayings,
}

/// Stopped before its first instruction, with its records' file open where the shim expects it.
pub fn launch(contained: &Contained, program: &Program, room: &Room, cpu_seconds: u64) -> Result<Launched, Refusal> {
    let records = program.replay.is_some();
    let place = Place {
        directory: &room.work,
        stdin: program.stdin.as_deref(),
        stdout: if records { &room.stdout } else { &room.main },
        stderr: &room.stderr,
        cpu_seconds,
    };
    let launched = contain::launch(contained, program, &place)?;
    if records {
        let registers = launched.tracee.registers()?;
        let stands = Some(room.work.clone());
        let slot = Slot { work: room.work.clone(), stands, fresh: vec![(RECORDS, room.main.clone())] };
        Gadget(launched.gadget).isolate(&launched.tracee, &registers, &slot, &Descriptors::default())?;
    }
    Ok(launched)
}

/// Starts the program and goes to its entry: what the dynamic linker does before is not the program's.
pub fn start(
    contained: &Contained,
    program: &Program,
    name: &str,
    known: Option<(Code, Filter)>,
) -> Result<Started, Refusal> {
    let room = Room::create(contained, name, &program.files)?;
    let Launched { tracee, entry, gadget } = launch(contained, program, &room, STEPPED_SECONDS)?;
    run_to(&tracee, entry)?;
    let mut modules = Modules::of(&tracee)?;
    if let Some(code) = modules.mappings().0.iter().find(|mapping| mapping.writable && mapping.executable) {
        return Err(changes_its_code(code).into());
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
    let (code, filter) =
        known.unwrap_or_else(|| (Code::new(single, entries.clone()), Filter::new(program.sites.clone(), modules)));
    let mut golden = Golden::at_entry(tracee, code, single)?;
    golden.own.cleared = Gadget(gadget).cleared(&golden.tracee)?;
    let watch = Watch::new(program.replay.is_some());
    Ok(Started { golden, filter, watch, handlers: Handlers::new(entries), gadget: Gadget(gadget), room })
}

/// The dynamic linker's part, natively.
fn run_to(tracee: &Tracee, entry: u64) -> Result<(), Refusal> {
    let mut original = [0];
    tracee.read(entry, &mut original)?;
    tracee.write(entry, &[BREAKPOINT])?;
    let stop = tracee.resume_and_wait(0)?;
    if !stop.trapped() {
        return Err(Failure::environment("the program does not come to its first instruction")
            .why(format!("{} in the dynamic linker: a library may be missing", stop.words()))
            .next("ldd names the libraries it needs; what else it needs is given by --env and --file")
            .into());
    }
    tracee.write(entry, &original)?;
    let registers = tracee.registers()?;
    tracee.set_registers(&Registers { rip: entry, ..registers })?;
    Ok(())
}

/// What is decoded once must stay what it is.
fn changes_its_code(code: &Mapping) -> Failure {
    let name = if code.name.is_empty() { "memory without a name" } else { &code.name };
    let why = format!("{name} at {:#x} is both writable and executable: its code may change while it runs", code.start);
    Failure::environment("the program cannot be repeated exactly")
        .why(why)
        .next("link it with -z noexecstack and without -N; what makes code while it runs is not supported")
}

impl Started {
    /// The instruction that is next.
    pub fn next_site(&mut self) -> Result<SiteId, Refusal> {
        let ip = self.golden.ip();
        let block = self.golden.code.block_from(ip, &self.golden.tracee, &mut self.filter)?;
        Ok(self.golden.code.block(block).sites[0])
    }

    /// What it has open, for forks of it.
    pub fn descriptors(&self, program: &Program) -> Result<Descriptors, Refusal> {
        let fresh: &[i32] = match program.replay {
            Some(_) => &[libc::STDERR_FILENO, RECORDS],
            None => &[libc::STDOUT_FILENO, libc::STDERR_FILENO],
        };
        let found = Descriptors::of(self.golden.tracee.pid, &self.room.work, fresh)?;
        // the C library looks at addresses with sockets of its own; a server's are the shim's, and here is no network
        let harmless = |shared: &&String| program.replay.is_some() && shared.contains("socket:");
        match found.shared.iter().find(|shared| !harmless(shared)) {
            None => Ok(found),
            Some(shared) => Err(Failure::environment("the program holds what its forks would share")
                .why(format!("descriptor {shared}"))
                .next("files with a name can be opened again; a server runs without its sockets under --replay")
                .into()),
        }
    }

    /// One run of instructions, with what it means for the filter. The second is whether it lay outside the wanted handlers.
    pub fn advance(&mut self, limit: u64) -> Result<(Went, bool), Refusal> {
        let outside = self.handlers.outside(self.golden.tracee.pid, self.golden.registers());
        let went = self.golden.advance(limit, &mut self.filter, &mut self.watch)?;
        if std::mem::take(&mut self.watch.code_changed) {
            self.filter.modules.borrow_mut().refresh(self.golden.tracee.pid)?;
        }
        Ok((went, outside))
    }
}

/// Twice natively and once stepped: all three must write the same.
pub fn profile(contained: &Contained, program: &Program) -> Result<Known, Refusal> {
    let begun = Instant::now();
    let facts = inspect::refuse(program, contained.user)?;
    let (first, cpu) = native(contained, program, "native-1")?;
    let (second, _) = native(contained, program, "native-2")?;
    let golden = first.output(program);
    if let Some(difference) = difference(&golden, &second.output(program)) {
        return Err(Failure::environment("the program does not write the same twice")
            .why(difference)
            .next("fix its time, seeds and addresses; a server does so under --replay")
            .into());
    }
    let mut started = start(contained, program, "profile", None)?;
    let (mut stream, replies) = stream(&mut started, program)?;
    let collected = started.room.collected(program.limits.file_bytes)?;
    if let Some(difference) = difference(&golden, &collected.output(program)) {
        return Err(Failure::environment("the program writes something else when it is stepped")
            .why(difference)
            .next(match started.watch.threads {
                0 => "if it reads its own code, breakpoints disturb it: --stepper step has none, and is slower",
                _ => "its threads may write in another order when they take turns: let one write what all have found",
            })
            .into());
    }
    started.room.remove();
    let Started { golden: Golden { code, .. }, filter, watch, .. } = started;
    let threads = watch.threads > 0;
    let mut profile = Profile {
        instructions: stream.instructions(),
        sites: code.sites().len() as u64,
        eligible: Vec::new(),
        replies,
        golden,
        cpu_us: cpu.as_micros() as u64,
        seconds: begun.elapsed().as_secs_f64(),
        remarks: remarks(program, &facts, &watch),
    };
    if let Some(reply) = program.sites.reply {
        stream.restrict(&code, profile.work_for(reply)?);
    }
    profile.eligible = FlipType::ALL.iter().map(|kind| (*kind, stream.eligible(&code, *kind))).collect();
    if profile.eligible.iter().all(|(_, count)| *count == 0) {
        return Err(Failure::request("no instruction that the program runs may be hit")
            .why("--symbol, --library, --handler, --except and --reply leave none of them")
            .next("leave one of them out")
            .into());
    }
    Ok(Known { stream, code, filter, collected, cpu, profile, threads, said: Sayings::default() })
}

fn remarks(program: &Program, facts: &Facts, watch: &Watch) -> Vec<String> {
    let stripped = facts.stripped.then(|| format!("{} is stripped: its functions have no names", program.argv[0]));
    let started = match watch.threads {
        0 => None,
        1 => Some("a thread".to_owned()),
        n => Some(format!("{n} threads")),
    };
    let threads = started.map(|started| {
        format!("it starts {started}: they take turns up to a flip and run freely after it; the controls show what that changes")
    });
    stripped.into_iter().chain(threads).collect()
}

/// With how far it was at each reply.
fn stream(started: &mut Started, program: &Program) -> Result<(Stream, Vec<u64>), Refusal> {
    let most = program.limits.instructions;
    let mut stream = Stream::default();
    let mut replies = Vec::new();
    loop {
        let (went, outside) = started.advance(u64::MAX)?;
        if std::mem::take(&mut started.watch.shares) {
            started.descriptors(program)?;
        }
        if std::mem::take(&mut started.watch.replied) {
            replies.push(started.golden.position);
        }
        match went {
            Went::On(ran) => stream.push(ran, outside),
            Went::Ended(stop, ran) => {
                stream.push(ran, outside);
                return match stop {
                    Stop::Exited(_) => Ok((stream, replies)),
                    stop => Err(Failure::environment("the undisturbed program ends otherwise when it is stepped")
                        .why(format!("{} after {} instructions", stop.words(), stream.instructions()))
                        .next("it may measure time or memory: run it by hand with less of both")
                        .into()),
                };
            }
        }
        if stream.instructions() > most {
            return Err(Failure::environment(format!("the program runs more than {most} instructions"))
                .why("each of them is stepped, twice; that takes about a minute for 20 million")
                .next("give it less input, or raise --max-instructions")
                .into());
        }
    }
}
