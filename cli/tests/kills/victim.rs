//! The processes that are killed, and how they are found.

use super::world::World;
use crate::support::{Started, wait_for};
use process::{ProcDir, ProcessId};
use rustix::process::Signal;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    /// The process of the verb.
    Tool,
    /// The tool in the background that `up --detach` starts.
    Supervisor,
    Reaper,
    /// One process of a service.
    Service,
    /// The process that runs the programs of a campaign.
    Engine,
    /// The reaper, and the tool as soon as another reaper runs.
    ReaperThenTool,
    /// Both before another reaper runs. Then `down` has to clean up.
    ReaperAndTool,
}

/// The warning of a verb when another reaper has everything that the killed one had.
const REPLACED: &str = "a new one was started";

/// What happened to a verb in which something should be killed.
pub struct Killed {
    /// How many processes. 0: they had ended, or the verb had.
    pub processes: u64,
    /// Whether the verb's own process was killed.
    pub tool: bool,
}

impl Victim {
    pub fn name(self) -> &'static str {
        match self {
            Victim::Tool => "tool",
            Victim::Supervisor => "supervisor",
            Victim::Reaper => "reaper",
            Victim::Service => "service",
            Victim::Engine => "engine",
            Victim::ReaperThenTool => "reaper, then tool",
            Victim::ReaperAndTool => "reaper and tool",
        }
    }

    /// Kills it as soon as it exists, unless the verb ends before.
    pub fn kill(self, world: &World, verb: &mut Started, random: u64) -> Killed {
        match self {
            Victim::Tool => {
                let tool = kill_tool(verb);
                Killed { processes: u64::from(tool), tool }
            }
            Victim::Supervisor | Victim::Reaper | Victim::Service | Victim::Engine => {
                Killed { processes: u64::from(self.kill_found(world, verb, random).is_some()), tool: false }
            }
            Victim::ReaperThenTool => {
                let reaper = Victim::Reaper.kill_found(world, verb, random);
                let tool = kill_tool(verb);
                Killed { processes: u64::from(reaper.is_some()) + u64::from(tool), tool }
            }
            Victim::ReaperAndTool => {
                let found = wait_for("a reaper", || {
                    if verb.has_ended() { Some(None) } else { Victim::Reaper.find(world, random).map(Some) }
                });
                let Some(reaper) = found else { return Killed { processes: 0, tool: false } };
                // it cannot start another reaper in between
                verb.signal("STOP");
                let reaper = kill(reaper);
                let tool = kill_tool(verb);
                Killed { processes: u64::from(reaper) + u64::from(tool), tool }
            }
        }
    }

    /// The killed process; None if the verb ended first. Returns when the verb has replaced a killed reaper of its own.
    fn kill_found(self, world: &World, verb: &mut Started, random: u64) -> Option<ProcessId> {
        let replaced = |verb: &Started| verb.err_so_far().matches(REPLACED).count();
        let before = replaced(verb);
        let (process, parent) = wait_for(self.name(), || match self.find(world, random) {
            Some(process) => {
                let parent = ProcDir::open(process.pid).and_then(|dir| dir.stat()).map_or(0, |stat| stat.parent);
                kill(process).then_some(Some((process, parent)))
            }
            None => verb.has_ended().then_some(None),
        })?;
        if self == Victim::Reaper && parent == verb.child.id() {
            wait_for("another reaper", || (verb.has_ended() || replaced(verb) > before).then_some(()));
        }
        Some(process)
    }

    fn find(self, world: &World, random: u64) -> Option<ProcessId> {
        let tool = env!("CARGO_BIN_EXE_faultloom");
        let is_one = |command: &str| match self {
            Victim::Supervisor => command.starts_with(tool) && command.ends_with("up --behind"),
            Victim::Reaper => command.starts_with("faultloom-reaper"),
            Victim::Engine => command.contains("flip-engine"),
            // a child between fork and exec still has the command line of the tool
            Victim::Service => {
                !command.is_empty() && !command.starts_with(tool) && !command.starts_with("faultloom-reaper")
            }
            Victim::Tool | Victim::ReaperThenTool | Victim::ReaperAndTool => unreachable!("not searched for"),
        };
        let found: Vec<i32> =
            world.home.processes().into_iter().filter(|(_, command)| is_one(command)).map(|(pid, _)| pid).collect();
        let index = random.checked_rem(found.len() as u64)?;
        ProcessId::of(found[index as usize].unsigned_abs())
    }
}

/// Whether it was alive.
fn kill(process: ProcessId) -> bool {
    let alive = process.is_alive();
    process.signal(Signal::KILL);
    alive
}

/// Whether the verb was alive, by its status.
fn kill_tool(verb: &mut Started) -> bool {
    if verb.has_ended() {
        return false;
    }
    verb.signal("KILL");
    wait_for("the end of the tool", || verb.has_ended().then_some(()));
    let status = verb.child.try_wait().unwrap().expect("it has ended");
    std::os::unix::process::ExitStatusExt::signal(&status) == Some(9)
}
