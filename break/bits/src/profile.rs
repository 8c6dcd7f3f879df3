//! The undisturbed program: does it repeat itself, what does it write, and which instructions does it run?

use crate::code::{Code, SiteId};
use crate::contain::{self, Contained, Launched, Place};
use crate::descriptors::Descriptors;
use crate::fork::{Gadget, Slot};
use crate::golden::{BREAKPOINT, Golden, Went};
use crate::inspect;
use crate::modules::{self, Modules};
use crate::outputs::{Collected, difference};
use crate::place::{RECORDS, Room};
use crate::protocol::{Profile, Program, Stepper};
use crate::refusal::Refusal;
use crate::sites::{Filter, Handlers};
use crate::stream::Stream;
use crate::supervise::{Bounds, Hit, Supervisor};
use crate::tracee::{Registers, Stop, Tracee};
use crate::watch::Watch;
use model::Failure;
use model::flip::{Ending, FlipType};
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

/// An undisturbed program that takes longer is not for a campaign.
const NATIVE_MAX: Duration = Duration::from_secs(60);

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
    said: HashMap<u64, Said>,
}

/// Stopped before its first instruction, with its records' file open where the shim expects it.
fn launch(contained: &Contained, program: &Program, room: &Room) -> Result<Launched, Refusal> {
    let records = program.replay.is_some();
    let place = Place {
        directory: &room.work,
        stdin: program.stdin.as_deref(),
        stdout: if records { &room.stdout } else { &room.main },
        stderr: &room.stderr,
        cpu_seconds: NATIVE_MAX.as_secs(),
    };
    let launched = contain::launch(contained, program, &place)?;
    if records {
        let registers = launched.tracee.registers()?;
        let slot = Slot { work: room.work.clone(), fresh: vec![(RECORDS, room.main.clone())] };
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
    let Launched { tracee, entry, gadget } = launch(contained, program, &room)?;
    run_to(&tracee, entry)?;
    let mut modules = Modules::of(&tracee)?;
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
    let golden = Golden::at_entry(tracee, code, single)?;
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
        let failure = Failure::environment(format!("the program does not come to its entry: {stop:?}"));
        return Err(failure.why("the dynamic linker ended it: a library may be missing").into());
    }
    tracee.write(entry, &original)?;
    let registers = tracee.registers()?;
    tracee.set_registers(&Registers { rip: entry, ..registers })?;
    Ok(())
}

impl Started {
    /// The instruction that is next.
    pub fn next_site(&mut self) -> Result<SiteId, Refusal> {
        let ip = self.golden.ip();
        let block = self.golden.code.block_from(ip, &self.golden.tracee, &mut self.filter)?;
        Ok(self.golden.code.block(block).sites[0])
    }

    /// One run of instructions, with what it means for the filter. The second is whether it lay outside the wanted handlers.
    pub fn advance(&mut self, limit: u64) -> Result<(Went, bool), Refusal> {
        let outside = self.handlers.outside(self.golden.registers());
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
    inspect::refuse(program, contained.user)?;
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
    let (stream, replies) = stream(&mut started, program.limits.instructions)?;
    let collected = started.room.collected(program.limits.file_bytes)?;
    if let Some(difference) = difference(&golden, &collected.output(program)) {
        return Err(Failure::environment("the program writes something else when it is stepped")
            .why(difference)
            .next("with --stepper step it is stepped by the processor itself, slower")
            .into());
    }
    started.room.remove();
    let Started { golden: Golden { code, .. }, filter, .. } = started;
    let profile = Profile {
        instructions: stream.instructions(),
        sites: code.sites().len() as u64,
        eligible: FlipType::ALL.iter().map(|kind| (*kind, stream.eligible(&code, *kind))).collect(),
        replies,
        golden,
        cpu_us: cpu.as_micros() as u64,
        seconds: begun.elapsed().as_secs_f64(),
        remarks: Vec::new(),
    };
    Ok(Known { stream, code, filter, collected, cpu, profile, said: HashMap::new() })
}

/// With how far it was at each reply.
fn stream(started: &mut Started, most: u64) -> Result<(Stream, Vec<u64>), Refusal> {
    let mut stream = Stream::default();
    let mut replies = Vec::new();
    loop {
        let (went, outside) = started.advance(u64::MAX)?;
        if std::mem::take(&mut started.watch.replied) {
            replies.push(started.golden.position);
        }
        match went {
            Went::On(ran) => stream.push(ran, outside),
            Went::Ended(stop, ran) => {
                stream.push(ran, outside);
                return match stop {
                    Stop::Exited(_) => Ok((stream, replies)),
                    stop => Err(Failure::environment(format!("the undisturbed program ended by {stop:?}")).into()),
                };
            }
        }
        if stream.instructions() > most {
            return Err(Failure::environment(format!("the program runs more than {most} instructions"))
                .why("each of them is stepped, twice; that takes about a minute for 20 million")
                .next("give it less input, or raise --instructions")
                .into());
        }
    }
}

struct Undisturbed;

impl Hit for Undisturbed {
    fn struck(&mut self, _: String, _: bool) {}
}

/// What it writes by itself, and its CPU time.
fn native(contained: &Contained, program: &Program, name: &str) -> Result<(Collected, Duration), Refusal> {
    let room = Room::create(contained, name, &program.files)?;
    let launched = launch(contained, program, &room)?;
    let mut supervisor = Supervisor::new(Bounds { cpu: NATIVE_MAX, wall: NATIVE_MAX });
    supervisor.add(launched.tracee, Undisturbed, 0)?;
    let ended = loop {
        if let Some(ended) = supervisor.ended(Duration::from_secs(1))?.pop() {
            break ended;
        }
    };
    let collected = room.collected(program.limits.file_bytes)?;
    let words = String::from_utf8_lossy(&room.stderr()).trim().to_owned();
    room.remove();
    let refuse = |what: String, next: &str| {
        let failure = Failure::environment(what).next(next);
        Err(Refusal(if words.is_empty() { failure } else { failure.why(words.clone()) }))
    };
    if ended.refused_calls > 0 {
        return refuse(
            "the program starts, replaces or signals other processes".into(),
            "run it in the foreground and as one process",
        );
    }
    match ended.ending {
        Ending::Exit(_) => Ok((collected, ended.cpu)),
        Ending::Signal(signal) => {
            refuse(format!("the undisturbed program was ended by signal {signal}"), "run it by hand first")
        }
        Ending::Hang => refuse(
            format!("the undisturbed program does not end within {} s", NATIVE_MAX.as_secs()),
            "give it an end: its input, or for a server --replay with an input trace",
        ),
    }
}

/// What is said of an instruction in every report, worked out once.
#[derive(Clone, Debug, Default)]
pub struct Said {
    pub instruction: String,
    pub class: &'static str,
    pub module: String,
    pub offset: u64,
    pub symbol: Option<String>,
    pub source: Option<String>,
}

impl Known {
    /// What is said of the instruction at an address, which is decoded in `code`.
    pub fn said(&mut self, ip: u64, code: &Code) -> &Said {
        let Known { said, filter, .. } = self;
        said.entry(ip).or_insert_with(|| {
            let instruction = code.instruction_at(ip);
            let modules::Place { module, offset, symbol, source } = filter.modules.borrow_mut().place(ip);
            Said {
                instruction: instruction.as_ref().map(|i| i.text()).unwrap_or_default(),
                class: instruction.as_ref().map_or("other", |i| i.class()),
                module,
                offset,
                symbol,
                source,
            }
        })
    }
}
