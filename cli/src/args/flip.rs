//! Arguments of `faultloom flip`.

use super::flip_live::FlipLive;
use bit_flips::engine_messages::Stepper;
use clap::{Args as ClapArgs, Subcommand};
use model::flip::{BitPolicy, FlipType};
use std::path::PathBuf;

#[derive(ClapArgs)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "The program runs contained: no network, no file but its own, an unprivileged user.\n\
    Exit codes: 0 no undetected error, 1 undetected errors, 5 the campaign proves nothing.")]
pub struct Flip {
    #[command(subcommand)]
    pub part: Option<FlipPart>,
    #[command(flatten)]
    pub what: FlipWhat,
    #[command(flatten)]
    pub draw: FlipDraw,
    #[command(flatten)]
    pub sites: FlipSites,
    #[command(flatten)]
    pub judge: FlipJudge,
    #[command(flatten)]
    pub external: FlipExternal,
    /// Go on with a campaign that was interrupted, with what it was asked then
    #[arg(long, value_name = "RUN", conflicts_with_all = ["program", "variants", "seed", "types", "count", "width", "external"])]
    pub resume: Option<String>,
    /// The program and its arguments, after `--`
    #[arg(last = true, value_name = "PROGRAM ARGUMENTS")]
    pub program: Vec<String>,
}

#[derive(Subcommand)]
pub enum FlipPart {
    /// One injection of a campaign again, in a fresh process
    Replay(FlipReplay),
    /// Flip bits in a process that runs already. Corrupts it
    Live(FlipLive),
}

#[derive(ClapArgs)]
pub struct FlipReplay {
    /// RUN:ID, or RUN:VARIANT:ID; RUN may be `last`
    #[arg(value_name = "RUN:ID")]
    pub of: String,
    /// Stop right after the flip, in gdb
    #[arg(long)]
    pub gdb: bool,
    /// Stop right before it instead
    #[arg(long, requires = "gdb")]
    pub before: bool,
}

/// What runs.
#[derive(ClapArgs)]
pub struct FlipWhat {
    /// Standard input of the program
    #[arg(long, value_name = "FILE")]
    pub stdin: Option<PathBuf>,
    /// A file to have in the working directory; may be repeated
    #[arg(long = "file", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// An environment variable; nothing is inherited but PATH; may be repeated
    #[arg(long = "env", value_name = "NAME=VALUE")]
    pub env: Vec<String>,
    /// The program is a server: this input trace is what its clients send
    #[arg(long, value_name = "INPUT")]
    pub replay: Option<PathBuf>,
    /// How many of its connections may have unanswered input at a time
    #[arg(long, value_name = "N", requires = "replay", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub connections: u32,
    /// A further program to set beside, `NAME=COMMAND`; may be repeated
    #[arg(long = "variant", value_name = "NAME=COMMAND")]
    pub variants: Vec<String>,
    /// Refuse a golden run of more instructions than this
    #[arg(long, value_name = "N", default_value_t = 400_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub max_instructions: u64,
    /// How the golden process is brought to a point: by blocks, or by single steps, which is slow
    #[arg(long, value_name = "HOW", default_value = "block", value_parser = stepper)]
    pub stepper: Stepper,
}

/// What is drawn.
#[derive(ClapArgs)]
pub struct FlipDraw {
    /// CF, WREG, WVAL, WADDR, RADDR, RREG, RVAL, TEXT, ASC [default: the first seven]
    #[arg(long, value_name = "TYPES", value_delimiter = ',', value_parser = flip_type)]
    pub types: Vec<FlipType>,
    /// Flips per type [default: 200]
    #[arg(long, short = 'n', value_name = "N", conflicts_with = "width", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub count: Option<u32>,
    /// As many flips as it takes for intervals at most so many percentage points wide
    #[arg(long, value_name = "PERCENT", value_parser = width)]
    pub width: Option<f64>,
    /// Which bits may flip: full or low32
    #[arg(long, value_name = "POLICY", default_value = "full", value_parser = bits)]
    pub bits: BitPolicy,
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Fault-free forks among the flips
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    pub controls: u32,
}

/// Where flips may strike. All that is given must hold.
#[derive(ClapArgs)]
pub struct FlipSites {
    /// Only in this function; may be repeated
    #[arg(long = "symbol", value_name = "NAME")]
    pub symbols: Vec<String>,
    /// Only in this program or library, by file name; may be repeated
    #[arg(long = "library", value_name = "NAME")]
    pub libraries: Vec<String>,
    /// Only while this function runs, with all it calls; may be repeated
    #[arg(long = "handler", value_name = "NAME")]
    pub handlers: Vec<String>,
    /// Not in this program or library; may be repeated
    #[arg(long = "except", value_name = "NAME")]
    pub except: Vec<String>,
    /// Only in the work for this reply of the program, from 0
    #[arg(long, value_name = "N")]
    pub reply: Option<usize>,
    /// Then try every flip there is in that work, and set the drawn ones beside them
    #[arg(long, requires = "reply")]
    pub exhaustive: bool,
}

/// What its clients notice.
#[derive(ClapArgs)]
pub struct FlipJudge {
    /// How outputs are read: lines, memcached or dns
    #[arg(long, value_name = "NAME", default_value = "lines")]
    pub protocol: String,
    /// The check sum that clients verify: crc-line
    #[arg(long, value_name = "NAME")]
    pub check: Option<String>,
    /// The exit status with which a hardened program stops itself
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..=255))]
    pub abort_status: Option<i32>,
    /// What a hardened program writes to standard error when it stops itself
    #[arg(long, value_name = "TEXT")]
    pub abort_marker: Option<String>,
    /// Lines that begin so are error messages; may be repeated
    #[arg(long = "error", value_name = "TEXT")]
    pub errors: Vec<String>,
    /// Ask this command about each deviating output: JSON on its standard input; prints none, undetected, hardening or otherwise
    #[arg(long = "judge", value_name = "COMMAND")]
    pub command: Option<String>,
}

/// Instead of flips: a disturbance of your own.
#[derive(ClapArgs)]
pub struct FlipExternal {
    /// Classify runs while this command acts (lowers the voltage, say). It ends when they do
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["types", "count", "width"])]
    pub external: Option<String>,
    /// How many runs
    #[arg(long, value_name = "N", requires = "external", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub runs: u32,
    /// A server that runs already, which gets the input trace; instead of a program
    #[arg(long, value_name = "HOST:PORT", requires = "external", requires = "replay")]
    pub server: Option<String>,
    /// How long a run may take
    #[arg(long, value_name = "MS", requires = "external", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    pub run_timeout_ms: u64,
}

pub(super) fn flip_type(text: &str) -> Result<FlipType, String> {
    let names = FlipType::ALL.map(FlipType::as_str).join(", ");
    FlipType::parse(text).ok_or_else(|| format!("one of {names}"))
}

pub(super) fn bits(text: &str) -> Result<BitPolicy, String> {
    serde_json::from_value(text.into()).map_err(|_| "full or low32".to_owned())
}

fn stepper(text: &str) -> Result<Stepper, String> {
    serde_json::from_value(text.into()).map_err(|_| "block or step".to_owned())
}

/// In percentage points; kept as a share.
fn width(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').trim().parse::<f64>() {
        Ok(percent) if (0.01..=100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("a number of percentage points from 0.01 to 100".to_owned()),
    }
}
