//! What the tool and the engine tell each other, one JSON object per line.
//!
//! The engine is a process of its own, the first of its own namespaces: a corrupted child can reach nothing outside them,
//! and when the engine dies, the kernel ends everything in them.

mod program;

use model::Failure;
use model::flip::{BitPolicy, Effect, FlipType, Injection};
pub use program::{Limits, Program, Replay, Sites, Stepper};
use serde::{Deserialize, Serialize};

/// What is drawn: for each type a number of flips, uniformly over the eligible instructions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Draw {
    pub seed: u64,
    pub bits: BitPolicy,
    pub types: Vec<(FlipType, u32)>,
    /// Fault-free forks, spread evenly: their output must be the golden one. Their ids follow those of the flips.
    pub controls: u32,
}

/// How an injection is brought about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// A fork of one golden process at the point.
    #[default]
    Fork,
    /// A fresh process, stepped to the point.
    Fresh,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Request {
    /// First: runs the program undisturbed (twice natively, once stepped) and answers [`Reply::Profile`].
    Begin(Box<Program>),
    /// Every flip of the types within the work for one reply (an index of [`Profile::replies`]): answers [`Reply::Census`], then one
    /// [`Reply::Injected`] per class, then [`Reply::Done`]. Without `classes`, every flip is tried by itself: the oracle of classes.
    Exhaust { reply: usize, types: Vec<FlipType>, bits: BitPolicy, classes: bool, skip: Vec<u32>, only: Vec<u32> },
    /// Brings one flip about in a fresh process and leaves that for a debugger, right before the flip or right after it: answers
    /// [`Reply::Held`], and [`Reply::Done`] when the process has ended.
    Hold { draw: Draw, id: u32, after: bool },
    /// Answers one [`Reply::Injected`] each, in any order, then [`Reply::Done`]. `only`: just these ids; empty: all.
    Inject { draw: Draw, way: Way, skip: Vec<u32>, only: Vec<u32> },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reply {
    Profile(Box<Profile>),
    /// Not run: why, and what can be done.
    Refused {
        what: String,
        why: Option<String>,
        next: Option<String>,
        /// What was asked for is wrong, not the environment.
        #[serde(default)]
        request: bool,
    },
    Injected(Box<Injected>),
    Census(Census),
    Held(Box<Held>),
    /// How far the golden process is, in instructions of the whole.
    Progress {
        position: u64,
        of: u64,
    },
    Done(Spent),
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Dynamic instructions from the program's entry to its end.
    pub instructions: u64,
    /// Distinct instructions.
    pub sites: u64,
    /// How many dynamic instructions are eligible for each type, after the filter.
    pub eligible: Vec<(FlipType, u64)>,
    /// How many instructions were done when each reply had been written: a server's records, else writes to standard output.
    pub replies: Vec<u64>,
    pub golden: Output,
    /// CPU time of one undisturbed run, microseconds.
    pub cpu_us: u64,
    pub seconds: f64,
    /// What a reader of the results must know, in words: threads, ranges left out.
    pub remarks: Vec<String>,
}

/// What a client of the program saw: one byte stream per connection, in the order of their numbers. A program without
/// connections has one: its standard output, and one per file it left behind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    pub streams: Vec<Stream>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stream {
    pub name: String,
    #[serde(with = "crate::bytes")]
    pub bytes: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Injected {
    /// None: a fault-free control, whose id is `id`.
    pub injection: Option<Injection>,
    pub id: u32,
    /// Of an exhaustive campaign: the flips that come to the same as this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stands_for: Vec<Weight>,
    pub effect: Effect,
    /// None: the golden one.
    pub output: Option<Output>,
    /// Of an output that is not the golden one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written: Option<Written>,
    #[serde(with = "crate::bytes")]
    pub stderr: Vec<u8>,
}

/// In which order an output was written, and how much of it before the flip. Files that a program left behind have no order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// All streams have an order: they are a server's. Else only the first, standard output.
    pub connections: bool,
    /// Index of a stream, and how many of its bytes came next.
    pub pieces: Vec<(u32, u64)>,
    /// How many bytes of all pieces were written when the flip was made.
    pub before: u64,
}

/// A process that is stopped at a flip and traced by nobody.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Held {
    /// As the engine sees it: [`crate::contain::outer_pid`] tells the number that a debugger wants.
    pub pid: i32,
    /// The thread that is struck, which is the process itself if it is the first: [`crate::contain::outer_thread`].
    pub thread: i32,
    /// Where it goes on.
    pub ip: u64,
    pub injection: Injection,
    /// What was hit, with its value before and after. None: it stands before the flip.
    pub hit: Option<String>,
    /// What the flip raised, and was not delivered. 0: nothing.
    pub signal: i32,
}

/// So many flips of a type.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Weight {
    pub kind: FlipType,
    pub flips: u64,
    /// What a uniform draw would give them, in eligible instructions: a flip has 1 / (operands × bits × iterations).
    pub share: f64,
}

/// All flips within a stretch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Census {
    /// How many must be tried.
    pub classes: u64,
    pub kinds: Vec<Kind>,
}

/// All flips of a type, and those of them that are without effect and need no trial.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kind {
    pub kind: FlipType,
    pub flips: u64,
    pub share: f64,
    /// The bit is written, or the program ends, before anything reads it.
    pub gone: u64,
    pub gone_share: f64,
    /// The same value stands at the other address.
    pub same: u64,
    pub same_share: f64,
}

impl Profile {
    /// The instructions between the reply before and the end of this one. Refuses a reply that the program does not write.
    pub fn work_for(&self, reply: usize) -> Result<std::ops::Range<u64>, Failure> {
        let Some(&end) = self.replies.get(reply) else {
            return Err(Failure::request(format!("there is no reply {reply}"))
                .why(format!("the program writes {} of them; the first is number 0", self.replies.len()))
                .next("name one of them with --reply"));
        };
        Ok(reply.checked_sub(1).map_or(0, |before| self.replies[before])..end)
    }
}

impl Kind {
    pub fn of(kind: FlipType) -> Kind {
        Kind { kind, flips: 0, share: 0.0, gone: 0, gone_share: 0.0, same: 0, same_share: 0.0 }
    }
}

/// Where the time went, in seconds of wall time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spent {
    pub profile: f64,
    pub step: f64,
    pub fork: f64,
    /// CPU time of the disturbed children.
    pub run: f64,
    pub judge: f64,
    pub wall: f64,
    /// CPU time of the engine and all its children, after the profile.
    pub cpu: f64,
    /// Points at which the golden process was elsewhere than profiled. Anything but 0 spoils the campaign.
    pub misses: u64,
}
