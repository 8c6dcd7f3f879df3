//! A campaign's flips, brought about: the golden process goes from point to point, its forks are struck and run to their end.

mod every;
mod held;

use crate::children::cpu_seconds;
use crate::code::Code;
use crate::contain::Contained;
use crate::cores::Cores;
use crate::descriptors::Descriptors;
use crate::golden::Went;
use crate::job::Job;
use crate::place::Room;
use crate::plan::{Planned, plan};
use crate::profile::{Known, Started, start};
use crate::protocol::{Draw, Injected, Program, Reply, Spent, Way, Weight};
use crate::refusal::Refusal;
use crate::strike::{Next, strike};
use crate::supervise::{Bounds, Ended, Hit as _, Supervisor, Underway, Whole};
use crate::threads;
use model::flip::{Crash, Effect};
use std::collections::{HashMap, HashSet};
use std::io;
use std::time::{Duration, Instant};

/// Forks that run at the same time: enough to keep two cores busy while the golden process is stepped.
const AT_ONCE: usize = 3;
const PROGRESS_EVERY: Duration = Duration::from_millis(250);
/// Wall time beyond which a run counts as hanging, whatever it does.
const WALL_MAX: Duration = Duration::from_secs(30);
/// CPU time that threads may spin for each other on one processor, where the undisturbed ones may have met less.
const SPIN_MAX: Duration = Duration::from_secs(1);

/// Where replies go.
pub type Tell<'a> = &'a mut dyn FnMut(&Reply) -> io::Result<()>;

/// What is neither to be skipped nor, if only some are wanted, another.
fn wanted<T>(mut all: Vec<T>, skip: &[u32], only: &[u32], id: impl Fn(&T) -> u32) -> Vec<T> {
    let [skip, only] = [skip, only].map(|ids| ids.iter().copied().collect::<HashSet<u32>>());
    all.retain(|one| !skip.contains(&id(one)) && (only.is_empty() || only.contains(&id(one))));
    all
}

pub struct Injector<'a> {
    contained: &'a Contained,
    program: &'a Program,
    known: &'a mut Known,
    cores: &'a mut Cores,
    tell: Tell<'a>,
    rooms: Vec<Room>,
    supervisor: Supervisor<Job>,
    spent: Spent,
    told: Instant,
    /// CPU time of the engine and its children before.
    cpu_before: f64,
    /// What each class stands for, by id.
    weights: HashMap<u32, Vec<Weight>>,
}

impl<'a> Injector<'a> {
    pub fn new(
        contained: &'a Contained,
        program: &'a Program,
        known: &'a mut Known,
        cores: &'a mut Cores,
        tell: Tell<'a>,
    ) -> Result<Injector<'a>, Refusal> {
        let limits = &program.limits;
        let spins = if known.threads { SPIN_MAX } else { Duration::ZERO };
        let cpu = (known.cpu * limits.hang_times).max(Duration::from_millis(limits.hang_ms)).max(spins);
        let supervisor = Supervisor::new(Bounds { cpu, wall: WALL_MAX, threads: threads::MOST });
        let rooms = (0..AT_ONCE)
            .map(|index| Room::create(contained, &format!("fork-{index}"), &[]))
            .collect::<io::Result<_>>()?;
        let spent = Spent::default();
        Ok(Injector {
            contained,
            program,
            known,
            cores,
            tell,
            rooms,
            supervisor,
            spent,
            told: Instant::now(),
            cpu_before: cpu_seconds(),
            weights: HashMap::new(),
        })
    }

    /// All flips of the draw but the skipped, or only the given.
    pub fn inject(mut self, draw: &Draw, way: Way, skip: &[u32], only: &[u32]) -> Result<Spent, Refusal> {
        let begun = Instant::now();
        let planned = wanted(plan(&self.known.stream, &self.known.code, draw), skip, only, |planned| planned.id);
        match way {
            Way::Fork => self.by_forks(&planned)?,
            Way::Fresh => planned.iter().try_for_each(|planned| self.by_a_fresh_process(planned))?,
        }
        self.finish(begun)
    }

    fn finish(mut self, begun: Instant) -> Result<Spent, Refusal> {
        while self.supervisor.running() > 0 {
            self.take_ended(Duration::from_secs(1))?;
        }
        for room in &self.rooms {
            room.remove();
        }
        self.spent.wall = begun.elapsed().as_secs_f64();
        self.spent.profile = self.known.profile.seconds;
        self.spent.cpu = cpu_seconds() - self.cpu_before;
        Ok(self.spent)
    }

    fn by_forks(&mut self, planned: &[Planned]) -> Result<(), Refusal> {
        if planned.is_empty() {
            return Ok(());
        }
        let mut started = self.start("golden")?;
        let mut descriptors = Descriptors::default();
        for planned in planned {
            self.go_to(&mut started, planned)?;
            if started.golden.position != planned.position || started.golden.ip() != planned.ip {
                self.spent.misses += 1;
                continue;
            }
            while self.rooms.is_empty() {
                self.take_ended(Duration::from_secs(1))?;
            }
            let forking = Instant::now();
            if std::mem::take(&mut started.watch.descriptors_changed) {
                descriptors = started.descriptors(self.program)?;
            }
            self.fork(&started, &descriptors, planned)?;
            self.spent.fork += forking.elapsed().as_secs_f64();
            self.progress(started.golden.position)?;
        }
        started.golden.kill()?;
        started.room.remove();
        self.give_back(started);
        Ok(())
    }

    /// A golden process at its entry, with what is known of its code.
    fn start(&mut self, name: &str) -> Result<Started, Refusal> {
        let code = std::mem::replace(&mut self.known.code, Code::new(false, HashSet::new()));
        start(self.contained, self.program, name, Some((code, self.known.filter.clone())))
    }

    fn give_back(&mut self, started: Started) {
        self.known.code = started.golden.code;
    }

    fn go_to(&mut self, started: &mut Started, planned: &Planned) -> Result<(), Refusal> {
        let stepping = Instant::now();
        while started.golden.position < planned.position {
            let left = planned.position - started.golden.position;
            if let (Went::Ended(..), _) = started.advance(left)? {
                return self.take_ended(Duration::ZERO);
            }
            if started.golden.stops.is_multiple_of(64) {
                self.take_ended(Duration::ZERO)?;
            }
        }
        // code that the program loaded may stand here that has not run yet since
        started.next_site()?;
        self.spent.step += stepping.elapsed().as_secs_f64();
        self.take_ended(Duration::ZERO)
    }

    fn fork(&mut self, started: &Started, descriptors: &Descriptors, planned: &Planned) -> Result<(), Refusal> {
        let room = self.rooms.pop().expect("waited for one");
        room.reset(self.contained, &started.room.work)?;
        let before = std::fs::metadata(&started.room.main)?.len() as usize;
        let gadget = started.gadget;
        let child = gadget.fork(&started.golden)?;
        let there = std::fs::read_link(format!("/proc/{}/cwd", started.golden.tracee.pid))?;
        let slot = room.slot(self.program.replay.is_some(), &there, &started.room.work);
        gadget.isolate(&child, started.golden.registers(), &slot, descriptors)?;
        self.cores.spread(child.pid);
        let others = if self.known.threads { gadget.recreate(&started.golden, &child)? } else { Vec::new() };
        let child = Whole { process: child.pid, struck: child, others };
        self.strike(started, child, *planned, room, before)
    }

    fn strike(
        &mut self,
        started: &Started,
        child: Whole,
        planned: Planned,
        room: Room,
        before: usize,
    ) -> Result<(), Refusal> {
        let instruction = started.golden.code.instruction_at(planned.ip).expect("it was checked to be next");
        let injection = planned.blow.map(|blow| self.known.injection(&started.golden.code, &planned, &blow));
        let mut job = Job::new(planned.id, injection, room, before);
        let Some(blow) = &planned.blow else {
            return Ok(self.supervisor.add(child, job, 0)?);
        };
        let struck = strike(&child.struck, &instruction, blow)?;
        job.struck(struck.hit, struck.activated);
        match struck.next {
            Next::Resume(signal) => self.supervisor.add(child, job, signal)?,
            Next::Underway(stop, rest) => {
                let underway = Underway { rest, instruction };
                if let Some(ended) = self.supervisor.add_underway(child, job, underway, stop)? {
                    self.end(ended)?;
                }
            }
            Next::Ended(_) if child.struck.pid != child.process => self.supervisor.add_without(child, job),
            Next::Ended(stop) => self.end(Ended::at_once(job, stop))?,
        }
        Ok(())
    }

    fn by_a_fresh_process(&mut self, planned: &Planned) -> Result<(), Refusal> {
        let mut started = self.start("fresh")?;
        self.go_to(&mut started, planned)?;
        if started.golden.position != planned.position || started.golden.ip() != planned.ip {
            self.spent.misses += 1;
            started.golden.kill()?;
        } else {
            let child = started.golden.whole()?;
            self.strike(&started, child, *planned, started.room.clone(), 0)?;
            while self.supervisor.running() > 0 {
                self.take_ended(Duration::from_secs(1))?;
            }
        }
        // its room was given to the forks' pool at its end: it is not one of theirs
        self.rooms.retain(|room| room.main != started.room.main);
        started.room.remove();
        self.give_back(started);
        Ok(())
    }

    fn take_ended(&mut self, timeout: Duration) -> Result<(), Refusal> {
        for ended in self.supervisor.ended(timeout)? {
            self.end(ended)?;
        }
        Ok(())
    }

    /// Compares what a run wrote, and tells.
    fn end(&mut self, ended: Ended<Job>) -> Result<(), Refusal> {
        self.spent.run += ended.cpu.as_secs_f64();
        let judging = Instant::now();
        let deviation = ended.what.deviation(self.program, self.known)?;
        let (output, written) = deviation.unzip();
        let Job { id, injection, hit, activated, room, .. } = ended.what;
        let mut modules = self.known.filter.modules.borrow_mut();
        let effect = Effect {
            hit,
            activated,
            ending: ended.ending,
            crash: ended.crash.map(|(signal, ip)| Crash { signal, ip, symbol: modules.symbol(ip).map(str::to_owned) }),
            cpu_us: ended.cpu.as_micros() as u64,
            refused_calls: ended.refused_calls,
        };
        drop(modules);
        let stderr = room.stderr();
        self.rooms.push(room);
        self.spent.judge += judging.elapsed().as_secs_f64();
        let injected = Injected {
            injection,
            id,
            stands_for: self.weights.remove(&id).unwrap_or_default(),
            effect,
            output,
            written,
            stderr,
        };
        Ok((self.tell)(&Reply::Injected(Box::new(injected)))?)
    }

    fn progress(&mut self, position: u64) -> Result<(), Refusal> {
        if self.told.elapsed() >= PROGRESS_EVERY {
            self.told = Instant::now();
            let of = self.known.profile.instructions;
            (self.tell)(&Reply::Progress { position, of })?;
        }
        Ok(())
    }
}
