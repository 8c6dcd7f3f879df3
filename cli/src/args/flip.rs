//! Arguments of `faultloom flip`.

use super::flip_live::FlipLive;
use app::kinds::flip::spec::{DrawSpec, ExternalSpec, FlipSpec, JudgeSpec, SiteSpec};
use app::spec::Version;
use bit_flips::engine_messages::Stepper;
use clap::{Args as ClapArgs, Subcommand};
use model::flip::{BitPolicy, FlipType};
use std::path::PathBuf;

#[derive(ClapArgs)]
#[command(after_help = "The program runs in a sandbox: no network, only its own files, an unprivileged user.\n\
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
    /// Resume an interrupted campaign with its original options
    #[arg(long, value_name = "RUN", conflicts_with_all = ["program", "variants", "seed", "types", "count", "width", "external"])]
    pub resume: Option<String>,
    /// The program and its arguments, after `--`
    #[arg(last = true, value_name = "PROGRAM ARGUMENTS")]
    pub program: Vec<String>,
}

impl Flip {
    pub fn spec(&self) -> FlipSpec {
        let Flip { what, draw, sites, judge, external, .. } = self;
        FlipSpec {
            version: Version,
            program: self.program.clone(),
            variants: what.variants.clone(),
            stdin: what.stdin.clone(),
            files: what.files.clone(),
            env: what.env.clone(),
            replay: what.replay.clone(),
            connections: what.connections,
            max_instructions: what.max_instructions,
            stepper: what.stepper,
            draw: DrawSpec {
                types: draw.types.clone(),
                count: draw.count,
                width: draw.width,
                bits: draw.bits,
                seed: draw.seed,
                controls: draw.controls,
            },
            sites: SiteSpec {
                symbols: sites.symbols.clone(),
                libraries: sites.libraries.clone(),
                handlers: sites.handlers.clone(),
                except: sites.except.clone(),
                reply: sites.reply,
                exhaustive: sites.exhaustive,
            },
            judge: JudgeSpec {
                protocol: judge.protocol.clone(),
                check: judge.check.clone(),
                abort_status: judge.abort_status,
                abort_marker: judge.abort_marker.clone(),
                errors: judge.errors.clone(),
                command: judge.command.clone(),
                expect_exit: judge.expect_exit,
            },
            external: external.external.clone().map(|command| ExternalSpec {
                command,
                runs: external.runs,
                server: external.server.clone(),
                run_timeout_ms: external.run_timeout_ms,
            }),
        }
    }
}

#[derive(Subcommand)]
pub enum FlipPart {
    /// Repeat one injection of a campaign in a fresh process
    Replay(FlipReplay),
    /// Flip bits in a running process (this corrupts it)
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
    /// Stop right before the flip instead
    #[arg(long, requires = "gdb")]
    pub before: bool,
}

/// What runs.
#[derive(ClapArgs)]
#[command(next_help_heading = "Program")]
pub struct FlipWhat {
    /// Standard input of the program
    #[arg(long, value_name = "FILE")]
    pub stdin: Option<PathBuf>,
    /// A file to have in the working directory; may be repeated
    #[arg(long = "file", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// An environment variable; only PATH is inherited; may be repeated
    #[arg(long = "env", value_name = "NAME=VALUE")]
    pub env: Vec<String>,
    /// The program is a server, and its clients send this input trace
    #[arg(long, value_name = "INPUT")]
    pub replay: Option<PathBuf>,
    /// How many of its connections may have unanswered input at a time
    #[arg(long, value_name = "N", requires = "replay", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub connections: u32,
    /// Another program to compare with, `NAME=COMMAND`; may be repeated
    #[arg(long = "variant", value_name = "NAME=COMMAND")]
    pub variants: Vec<String>,
    /// Refuse a golden run of more instructions than this
    #[arg(long, value_name = "N", default_value_t = 400_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub max_instructions: u64,
    /// How the process is run to a flip: cache (translated), block (a breakpoint per block) or step, each slower than
    /// the one before
    #[arg(long, value_name = "HOW", default_value = "cache", value_parser = stepper)]
    pub stepper: Stepper,
}

/// What is drawn.
#[derive(ClapArgs)]
#[command(next_help_heading = "Faults")]
pub struct FlipDraw {
    /// CF, WREG, WVAL, WADDR, RADDR, RREG, RVAL, TEXT, ASC [default: the first seven]
    #[arg(long, value_name = "TYPES", value_delimiter = ',', value_parser = flip_type)]
    pub types: Vec<FlipType>,
    /// Flips per type [default: 200]
    #[arg(long, short = 'n', value_name = "N", conflicts_with = "width", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub count: Option<u32>,
    /// As many flips as make the intervals at most this many percentage points wide
    #[arg(long, value_name = "PERCENT", value_parser = width)]
    pub width: Option<f64>,
    /// Which bits may flip: full or low32
    #[arg(long, value_name = "POLICY", default_value = "full", value_parser = bits)]
    pub bits: BitPolicy,
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Fault-free runs among the flips
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    pub controls: u32,
}

/// Where flips may be injected. All that is given must hold.
#[derive(ClapArgs)]
#[command(next_help_heading = "Sites")]
pub struct FlipSites {
    /// Only in this function; may be repeated
    #[arg(long = "symbol", value_name = "NAME")]
    pub symbols: Vec<String>,
    /// Only in this program or library, by file name; may be repeated
    #[arg(long = "library", value_name = "NAME")]
    pub libraries: Vec<String>,
    /// Only while this function runs, including all it calls; may be repeated
    #[arg(long = "handler", value_name = "NAME")]
    pub handlers: Vec<String>,
    /// Not in this program or library; may be repeated
    #[arg(long = "except", value_name = "NAME")]
    pub except: Vec<String>,
    /// Only in the work for this reply of the program, from 0
    #[arg(long, value_name = "N")]
    pub reply: Option<usize>,
    /// Then also try every flip in that work and compare the drawn ones with it
    #[arg(long, requires = "reply")]
    pub exhaustive: bool,
}

/// How outputs are judged, as clients would.
#[derive(ClapArgs)]
#[command(next_help_heading = "Checks")]
pub struct FlipJudge {
    /// How outputs are parsed: lines, memcached or dns
    #[arg(long, value_name = "NAME", default_value = "lines")]
    pub protocol: String,
    /// The checksum that clients verify: crc-line
    #[arg(long, value_name = "NAME")]
    pub check: Option<String>,
    /// The exit status by which a hardened program stops itself
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..=255))]
    pub abort_status: Option<i32>,
    /// What a hardened program writes to standard error when it stops itself
    #[arg(long, value_name = "TEXT")]
    pub abort_marker: Option<String>,
    /// Lines that begin with this are error messages; may be repeated
    #[arg(long = "error", value_name = "TEXT")]
    pub errors: Vec<String>,
    /// Classify each deviating output with this command: JSON on its standard input; it prints none, undetected,
    /// hardening or otherwise
    #[arg(long = "judge", value_name = "COMMAND")]
    pub command: Option<String>,
    /// The exit status of the undisturbed program; another one is refused as a failure
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(i32).range(0..=255))]
    pub expect_exit: i32,
}

/// Instead of flips: a disturbance of your own.
#[derive(ClapArgs)]
#[command(next_help_heading = "External disturbance")]
pub struct FlipExternal {
    /// Classify runs while this command disturbs the machine (lowers the voltage, for example)
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
    serde_json::from_value(text.into()).map_err(|_| "cache, block or step".to_owned())
}

/// In percentage points; kept as a share.
fn width(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').trim().parse::<f64>() {
        Ok(percent) if (0.01..=100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("a number of percentage points from 0.01 to 100".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Args, Command};
    use campaign::Spec;
    use clap::Parser;
    use model::Failure;

    fn resolved(words: &[&str]) -> Result<Spec, Failure> {
        match Args::try_parse_from(["faultloom", "flip"].iter().chain(words)).unwrap().command {
            Command::Flip(args) => args.spec().resolve(&app::Context::new(".faultloom")),
            _ => unreachable!("the verb is flip"),
        }
    }

    #[test]
    fn defaults_make_sense_with_nothing_but_a_program() {
        let spec = resolved(&["--", "true", "-x"]).unwrap();
        assert_eq!(spec.draw.types.len(), 7);
        assert_eq!(spec.variants[0].name, "true");
        assert!(spec.variants[0].program.argv[0].ends_with("/bin/true") && spec.variants[0].program.argv[1] == "-x");
        assert_eq!(spec.rules.protocol, "lines");
    }

    #[test]
    fn variants_have_names_and_commands() {
        let spec =
            resolved(&["--variant", "b=true 'x y' \"\"", "--types", "cf,rreg,cf", "-n", "5", "--", "true"]).unwrap();
        assert_eq!(spec.variants[1].program.argv[1..], ["x y", ""]);
        assert_eq!(spec.draw.types, [(FlipType::Cf, 5), (FlipType::Rreg, 5)]);
        for (words, why, field) in [
            (vec!["--variant", "true=true", "--", "true"], "two variants are named 'true'", Some("variants")),
            (vec!["--variant", "x", "--", "true"], "NAME=COMMAND", Some("variants")),
            (vec!["--variant", "x=true 'y", "--", "true"], "not closed", Some("variants")),
            (vec![], "no program to flip bits in", Some("program")),
            (vec!["--", "no-such-program"], "no program", None),
            (vec!["--stdin", "/no/such", "--", "true"], "is not a file", None),
            (vec!["--env", "x", "--", "true"], "NAME=VALUE", Some("env")),
            (
                vec!["--external", "true", "--replay", "/dev/null", "--server", "localhost"],
                "is not HOST:PORT",
                Some("external.server"),
            ),
            (vec!["--protocol", "http", "--", "true"], "no protocol 'http'", None),
            (
                vec!["--protocol", "dns", "--error", "x", "--", "true"],
                "are for the protocol 'lines'",
                Some("judge.errors"),
            ),
            (
                vec!["--reply", "0", "--exhaustive", "--types", "CF,ASC", "--", "true"],
                "ASC cannot be tried exhaustively",
                None,
            ),
        ] {
            let failure = resolved(&words).unwrap_err();
            assert!(failure.to_string().contains(why) && failure.exit() == model::Exit::Usage, "{failure}");
            assert_eq!(failure.field, field, "{failure}");
        }
    }
}
