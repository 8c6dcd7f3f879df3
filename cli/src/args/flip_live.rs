//! Arguments of `faultloom flip live`.

use super::flip::{bits, flip_type};
use clap::Args as ClapArgs;
use model::flip::{BitPolicy, FlipType};

#[derive(ClapArgs)]
#[command(
    after_help = "Nothing is contained and nothing can be undone: a wrong bit may reach the process's files, its data and its clients.\n\
    Restart it afterwards. For flips that can be repeated, in a sandboxed copy: faultloom flip --replay INPUT -- PROGRAM\n\
    Exit codes: 0 no wrong reply observed, 1 wrong replies, 4 stopped, 5 unknown (without --check, for example)."
)]
pub struct FlipLive {
    /// The process id
    #[arg(value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pub pid: i32,
    /// Confirms that this process and its data may be lost
    #[arg(long)]
    pub yes_corrupt_it: bool,
    /// Checks the process as its clients would and fails if a reply is wrong. It runs before, during and after each
    /// flip
    #[arg(long, value_name = "COMMAND")]
    pub check: Option<String>,
    /// How many flips, one after the other
    #[arg(long, short = 'n', value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub count: u32,
    /// CF, WREG, WVAL, WADDR, RADDR, RREG, RVAL, TEXT, ASC: one is drawn each time [default: the first seven]
    #[arg(long, alias = "type", value_name = "TYPES", value_delimiter = ',', value_parser = flip_type)]
    pub types: Vec<FlipType>,
    /// Which bits may flip: full or low32
    #[arg(long, value_name = "POLICY", default_value = "full", value_parser = bits)]
    pub bits: BitPolicy,
    /// Seed of the draws; the process itself is never twice in the same state [default: a new one each time]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Only in this function; may be repeated
    #[arg(long = "symbol", value_name = "NAME")]
    pub symbols: Vec<String>,
    /// Only in this program or library, by file name; may be repeated
    #[arg(long = "library", value_name = "NAME")]
    pub libraries: Vec<String>,
    /// Not in this program or library; may be repeated
    #[arg(long = "except", value_name = "NAME")]
    pub except: Vec<String>,
    /// How long the check may take
    #[arg(long, value_name = "MS", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    pub check_timeout_ms: u64,
    /// How long to wait for the process to do something
    #[arg(long, value_name = "MS", default_value_t = 5000, value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    pub wait_ms: u64,
}
