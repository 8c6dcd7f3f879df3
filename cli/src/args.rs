//! Arguments. Every verb works without any, by its defaults.

mod agent;
mod conditions;
mod fleet;
mod flip;
mod flip_live;
mod map;
mod request;

pub use agent::{Agent, AgentPart, AgentUnit, Collection, ModeArg};
pub use conditions::Conditions;
pub use fleet::{AgentServe, AgentTrust};
pub use flip::{Flip, FlipPart, FlipReplay};
pub use flip_live::FlipLive;
pub use map::{Map, Origin, Range};
pub use request::{Expect, Request};

use app::kinds::sweep::CONCURRENCY;
use clap::error::{ContextKind, ContextValue};
use clap::parser::ValueSource;
use clap::{ArgMatches, Args as ClapArgs, CommandFactory, FromArgMatches, Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;

#[derive(Parser)]
#[command(
    name = "faultloom",
    version = crate::version::SHORT,
    long_version = crate::version::long(),
    about = "Shows how a distributed system fails: records requests across all services, injects faults, lists the bugs.",
    max_term_width = 100
)]
#[command(after_help = "Exit codes: 0 pass, 1 fail, 2 usage, 3 environment, 4 aborted, 5 unknown.")]
pub struct Args {
    #[command(flatten)]
    pub common: Common,
    #[command(subcommand)]
    pub command: Command,
}

impl Args {
    /// Parses a command line; `words` begins with the program's name. Everything after `go` and `python` is an argument
    /// of the wrapped program, also if it has the form of a global option.
    pub fn parse_words(mut words: Vec<OsString>) -> Result<Args, clap::Error> {
        if let Some(verb) = wrapper_verb(&words)
            && words.get(verb + 1).is_some_and(|word| word != "--")
        {
            words.insert(verb + 1, "--".into());
        }
        let mut matches = Args::command().try_get_matches_from(words).map_err(without_internal_suggestions)?;
        refuse_options_of_the_whole(&matches)?;
        Args::from_arg_matches_mut(&mut matches)
    }
}

/// The commands that users see, for completions and man pages.
pub fn visible() -> clap::Command {
    let whole = Args::command();
    let shown = whole.get_subcommands().filter(|part| !part.is_hide_set()).cloned();
    let mut visible =
        clap::Command::new("faultloom").version(crate::version::SHORT).args(whole.get_arguments().cloned());
    visible = visible.about(whole.get_about().cloned().unwrap_or_default()).subcommands(shown);
    visible
}

fn without_internal_suggestions(mut error: clap::Error) -> clap::Error {
    if let Some(ContextValue::Strings(names)) = error.get(ContextKind::SuggestedSubcommand) {
        let command = Args::command();
        let is_hidden = |name: &String| command.find_subcommand(name).is_some_and(clap::Command::is_hide_set);
        // clap lists the most similar one last
        let names = names.iter().rev().filter(|name| !is_hidden(name)).cloned().collect();
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(names));
    }
    error
}

/// `flip replay` and `agent serve` take none of the options of `flip` and `agent`. Global options may precede the part;
/// clap's own check (`args_conflicts_with_subcommands`) refuses them as well.
fn refuse_options_of_the_whole(matches: &ArgMatches) -> Result<(), clap::Error> {
    let Some((verb, whole)) = matches.subcommand() else { return Ok(()) };
    let Some((part, _)) = whole.subcommand() else { return Ok(()) };
    let command = Args::command();
    let is_global =
        |id: &str| command.get_arguments().any(|argument| argument.get_id() == id && argument.is_global_set());
    let given = |id: &str| whole.value_source(id) == Some(ValueSource::CommandLine);
    let options = command.find_subcommand(verb).into_iter().flat_map(clap::Command::get_arguments);
    match options.map(|option| option.get_id().as_str()).find(|id| !is_global(id) && given(id)) {
        None => Ok(()),
        Some(id) => {
            let what = format!("the argument '{}' cannot be used with the subcommand '{part}'", id.replace('_', "-"));
            Err(Args::command().error(clap::error::ErrorKind::ArgumentConflict, what))
        }
    }
}

/// Where the verb is in a command line of `go` or `python`.
fn wrapper_verb(words: &[OsString]) -> Option<usize> {
    (1..words.len()).filter(|at| words[*at] == "go" || words[*at] == "python").find(|at| {
        // the same word may be the value of a global option, as in `--home go`
        let parsed = Args::try_parse_from(&words[..=*at]);
        parsed.is_ok_and(|args| matches!(args.command, Command::Go(_) | Command::Python(_)))
    })
}

#[derive(ClapArgs, Clone)]
#[command(next_help_heading = "Global options")]
pub struct Common {
    /// Folder of the store, logs and keys
    #[arg(long, global = true, env = "FAULTLOOM_HOME", default_value = ".faultloom")]
    pub home: PathBuf,
    /// The target file [default: target.yaml, if it exists]. `doctor --target` checks every service in it
    #[arg(long, short = 't', global = true, value_name = "FILE", num_args = 0..=1, default_missing_value = "target.yaml")]
    pub target: Option<PathBuf>,
    /// Trust settings of a target that something else runs
    #[arg(long, global = true, value_name = "FILE")]
    pub trust: Option<PathBuf>,
    /// Machine-readable output on standard output
    #[arg(long, global = true)]
    pub json: bool,
    /// Print results only, no progress
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// Log diagnostics to standard error; -vv for details. FAULTLOOM_LOG selects more precisely
    #[arg(long, short, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
}

#[derive(Subcommand)]
pub enum Command {
    /// Draft a target file for your application, with a reason for every line
    Init(Init),
    /// Start the target's services and keep them until Ctrl-C
    Up(Up),
    /// Stop a target that was started with `up --detach`
    Down,
    /// List the target's services and their health
    Ps,
    /// Send a request and show everything it did, with or without faults
    Record(Record),
    /// Run all cases of fault spaces and list the bugs they expose
    Sweep(Sweep),
    /// Flip single bits in a program and count the wrong answers clients would accept
    Flip(Box<Flip>),
    /// List or delete runs
    Runs(Runs),
    /// Show a run in the terminal
    Show(Show),
    /// Compare two runs
    Diff(Diff),
    /// Open the workbench: a page on loopback for everything that the runs recorded
    Ui(Ui),
    /// Write a self-contained HTML page for a run
    Report(Report),
    /// Export a run's traces: OTLP, Jaeger, Zipkin, Perfetto
    Export(Export),
    /// Import traces that OpenTelemetry recorded
    Import(Import),
    /// Show which process depends on which, from the kernel's sockets
    Map(Map),
    /// Check this machine and the target
    Doctor,
    /// Switch all faults at the target off or on
    Faults(Faults),
    /// Print how to give a service its SDK and keys if `up` does not start it
    Env(Env),
    /// Print a JSON Schema, for editors and other programs
    Schema(Schema),
    /// Print a completion script for a shell
    Completions(Completions),
    /// Print a man page, or write all of them
    Man(Man),
    /// Record which process on this host depends on which, continuously
    Agent(Agent),
    /// Run `go` with the SDK built in, without changes to your source
    #[command(disable_help_flag = true)]
    Go(Passed),
    /// Run `python` with the SDK loaded, without changes to your source
    #[command(disable_help_flag = true)]
    Python(Passed),
    /// Stops services whose supervisor has died (internal)
    #[command(hide = true)]
    Reaper,
    /// Flips bits in a sandbox (internal)
    #[command(hide = true)]
    FlipEngine,
    /// Flips one bit in a running process (internal)
    #[command(hide = true)]
    FlipTracer,
}

#[derive(ClapArgs)]
pub struct Init {
    /// A compose file, Kubernetes manifests, a kustomization, a Helm chart, a Procfile, or a folder with one of them or
    /// with start scripts; `-` reads manifests from standard input [default: this folder]
    #[arg(conflicts_with_all = ["attach", "ports"])]
    pub from: Option<PathBuf>,
    /// Draft from services that run already, by their listeners on this machine
    #[arg(long)]
    pub attach: bool,
    /// Use only this listener; may be repeated
    #[arg(long = "port", value_name = "PORT", requires = "attach", value_parser = clap::value_parser!(u16).range(1..))]
    pub ports: Vec<u16>,
    /// File to write [default: target.yaml]
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Name of the application
    #[arg(long)]
    pub name: Option<String>,
    /// Replace an existing file
    #[arg(long)]
    pub force: bool,
}

#[derive(ClapArgs)]
pub struct Env {
    #[arg(value_parser = ["go", "java", "python", "node"])]
    pub language: String,
    /// Only this service [default: all of the target with that language]
    #[arg(long, value_name = "NAME", value_parser = service_name)]
    pub service: Option<String>,
    /// How it is started
    #[arg(long = "for", value_name = "FORM", default_value = "shell", value_parser = ["shell", "docker", "systemd", "kubernetes"])]
    pub form: String,
    /// Also print the keys themselves
    #[arg(long)]
    pub show_keys: bool,
    /// Create the keys if there are none yet; without it, nothing is written
    #[arg(long)]
    pub create_keys: bool,
    /// With --for kubernetes: the manifests to patch [default: those in the folder of the target file]
    #[arg(long, value_name = "PATH")]
    pub manifests: Option<PathBuf>,
}

fn service_name(text: &str) -> Result<String, String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let fits = (1..=64).contains(&text.len()) && text.chars().all(allowed) && !text.starts_with(['.', '-']);
    if fits { Ok(text.to_owned()) } else { Err("a name has 1 to 64 letters, digits, '.', '_' or '-'".to_owned()) }
}

#[derive(ClapArgs)]
pub struct Schema {
    /// The target file, or the spec of a verb
    #[arg(value_name = "NAME", value_parser = clap::builder::PossibleValuesParser::new(app::spec::schema_names()))]
    pub of: String,
}

#[derive(ClapArgs)]
pub struct Completions {
    /// Write its output to where the shell looks: for bash
    /// ~/.local/share/bash-completion/completions/faultloom
    pub shell: clap_complete::Shell,
}

#[derive(ClapArgs)]
pub struct Man {
    /// `sweep`, `flip-replay` [default: the tool itself]
    pub command: Option<String>,
    /// Write the pages of all commands into this folder, such as ~/.local/share/man/man1
    #[arg(long, value_name = "FOLDER", conflicts_with = "command")]
    pub dir: Option<PathBuf>,
}

#[derive(ClapArgs)]
pub struct Up {
    /// Return when all services are healthy; `faultloom down` stops them
    #[arg(long, short)]
    pub detach: bool,
    /// Print nothing but the failure, as JSON (internal: the process behind --detach)
    #[arg(long, hide = true, conflicts_with = "detach")]
    pub behind: bool,
}

#[derive(ClapArgs)]
pub struct Record {
    /// List known entry points, each with its command, instead of sending a request
    #[arg(long, conflicts_with_all = ["url", "faults", "against", "count", "data", "data_binary", "form", "get", "method", "header", "proto", "before", "login", "follow", "cacert", "cert", "key", "insecure"])]
    pub discover: bool,
    #[command(flatten)]
    pub request: Request,
    #[command(flatten)]
    pub expect: Expect,
    /// A fault: 'currency/Convert unavailable after GetCurrencies×1'; may be repeated
    #[arg(long = "fault", short = 'f', value_name = "FAULT", help_heading = "Faults")]
    pub faults: Vec<String>,
    /// Send what this file describes: the spec of a recording in JSON (`schema record`). A sweep writes one for each
    /// bug whose command would contain cookies or bodies
    #[arg(long, value_name = "FILE", help_heading = "Request", conflicts_with_all = ["discover", "url", "faults", "against", "count", "data", "data_binary", "form", "get", "method", "header", "proto", "before", "login", "follow", "cacert", "cert", "key", "insecure", "bridge", "timeout_ms", "expect_status", "expect_body", "expect_json", "max_latency_ms"])]
    pub spec: Option<PathBuf>,
    /// Check faults against this run instead of sending the request once without faults
    #[arg(long, value_name = "RUN", help_heading = "Faults")]
    pub against: Option<String>,
    /// How many requests
    #[arg(long, short = 'n', default_value_t = 1, help_heading = "Request", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: u64,
    /// Show every call
    #[arg(long, help_heading = "Output")]
    pub all: bool,
}

#[derive(ClapArgs)]
pub struct Sweep {
    #[command(flatten)]
    pub request: Request,
    #[command(flatten)]
    pub expect: Expect,
    /// services, all-services, temporal, crash-points, calls, guided; may be repeated [default: services, crash-points,
    /// guided]
    #[arg(long = "space", short = 's', value_name = "SPACE", help_heading = "Faults")]
    pub spaces: Vec<String>,
    /// What the faults do: unavailable, reset, deadline, 'status 13', 'delay 200ms', hang, lost-reply, empty-reply,
    /// corrupt-reply, or all; may be repeated [default: unavailable; without --space also, one call at a time:
    /// lost-reply for calls that change state, hang, and delays around the deadlines that callers use]
    #[arg(long = "kind", short = 'k', value_name = "KIND", help_heading = "Faults")]
    pub kinds: Vec<String>,
    #[arg(long, short, help_heading = "Sweep", help = format!("Requests in flight at once, in every space [default: {CONCURRENCY}]"), value_parser = clap::value_parser!(u16).range(1..=512))]
    pub concurrency: Option<u16>,
    /// Resume an interrupted sweep with its original options, among them -c, --junit and the target. Only -c, --junit,
    /// -t and --trust may be given again: they replace the original ones. No completed case is sent again
    #[arg(long, value_name = "RUN", help_heading = "Sweep", conflicts_with_all = ["url", "spaces", "kinds", "method", "header", "data", "data_binary", "form", "get", "proto", "before", "login", "follow", "cacert", "cert", "key", "insecure", "timeout_ms", "bridge", "expect_status", "expect_body", "expect_json", "after", "max_latency_ms", "expect_call", "database", "expect_sql", "check", "confirm_real"])]
    pub resume: Option<String>,
    /// Also write a JUnit file
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub junit: Option<PathBuf>,
    /// Repeat each bug with real stops: kill the services at that moment instead of injecting the faults, and start
    /// them again. Only services that this sweep started are stopped
    #[arg(long, help_heading = "Sweep")]
    pub confirm_real: bool,
}

#[derive(ClapArgs)]
pub struct Runs {
    /// How many to list, newest first
    #[arg(long, short = 'n', default_value_t = 20)]
    pub limit: i64,
    /// Remove a run and its files
    #[arg(long, value_name = "RUN")]
    pub delete: Option<String>,
    /// Remove folders of the store that belong to no run, and name each: a killed process can leave them
    #[arg(long, conflicts_with_all = ["delete", "limit"])]
    pub clean: bool,
}

#[derive(ClapArgs)]
pub struct Show {
    /// Id (any unambiguous end or beginning), or `last`
    #[arg(default_value = "last")]
    pub run: String,
    /// Show every call
    #[arg(long)]
    pub all: bool,
}

#[derive(ClapArgs)]
pub struct Diff {
    pub before: String,
    pub after: String,
}

#[derive(ClapArgs)]
pub struct Ui {
    /// Port on loopback [default: any free one]
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    pub port: u16,
    /// Open it in $BROWSER or the desktop's browser
    #[arg(long)]
    pub open: bool,
    /// Let the page delete runs
    #[arg(long)]
    pub allow_run: bool,
}

#[derive(ClapArgs)]
pub struct Report {
    #[arg(default_value = "last")]
    pub run: String,
    /// File to write [default: in the run's folder]
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Open it in $BROWSER or the desktop's browser
    #[arg(long)]
    pub open: bool,
    /// Show paths and program arguments in full; they may contain secrets. Headers and bodies are left out anyway
    #[arg(long)]
    pub unredacted: bool,
}

#[derive(ClapArgs)]
pub struct Export {
    /// Id (any unambiguous end or beginning), or `last`. Of a sweep, the request without faults is exported
    #[arg(default_value = "last")]
    pub run: String,
    #[arg(long, value_enum, default_value_t = ExportFormat::Otlp)]
    pub format: ExportFormat,
    /// Of a sweep: the request that shows this bug, numbered from 1
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub bug: Option<u64>,
    /// File to write [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Export paths in full; they may contain secrets
    #[arg(long)]
    pub unredacted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ExportFormat {
    /// OpenTelemetry's JSON, for any collector
    Otlp,
    /// For Jaeger's UI: upload it under Search
    Jaeger,
    /// Zipkin's JSON, version 2
    Zipkin,
    /// Trace events, for ui.perfetto.dev or chrome://tracing
    Perfetto,
}

#[derive(ClapArgs)]
pub struct Import {
    /// OTLP in JSON, one object or one per line; `-` reads standard input
    pub file: PathBuf,
}

#[derive(ClapArgs)]
pub struct Faults {
    #[arg(value_parser = ["on", "off"])]
    pub switch: String,
}

#[derive(ClapArgs)]
pub struct Passed {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Args {
        Args::parse_words(line.split(' ').map(OsString::from).collect()).unwrap()
    }

    #[test]
    fn everything_after_a_wrapper_belongs_to_the_wrapped_program() {
        for (line, arguments) in [
            ("faultloom python -v", "-v"),
            ("faultloom python -q --json -t x.py", "-q --json -t x.py"),
            ("faultloom python --help", "--help"),
            ("faultloom --home go python --home x", "--home x"),
            ("faultloom python script.py go -v", "script.py go -v"),
            ("faultloom go -v", "-v"),
            ("faultloom go test -v -- -quiet", "test -v -- -quiet"),
            ("faultloom go -- -v", "-v"),
        ] {
            let args = parsed(line);
            let (Command::Go(passed) | Command::Python(passed)) = args.command else { panic!("{line}") };
            assert_eq!(passed.arguments.join(" "), arguments, "{line}");
            assert_eq!((args.common.verbose, args.common.json, args.common.target), (0, false, None), "{line}");
        }
    }

    #[test]
    fn global_options_are_parsed_before_and_after_every_part_of_a_verb() {
        for line in [
            "faultloom --home x flip replay last:1",
            "faultloom flip --home x replay last:1",
            "faultloom flip replay --home x last:1",
            "faultloom flip replay last:1 --home x",
            "faultloom --home x agent unit",
            "faultloom agent --home x unit",
            "faultloom agent unit --home x",
            "faultloom flip --home x -- true",
        ] {
            assert_eq!(parsed(line).common.home, PathBuf::from("x"), "{line}");
        }
    }

    #[test]
    fn a_part_of_a_verb_refuses_options_of_the_whole() {
        for line in ["faultloom flip --seed 3 replay last:1", "faultloom flip --count 3 live 1"] {
            let error = Args::parse_words(line.split(' ').map(OsString::from).collect()).err().unwrap();
            assert!(error.to_string().contains("cannot be used with"), "{error}");
        }
    }

    #[test]
    fn global_options_are_parsed_before_and_after_other_verbs() {
        assert_eq!(parsed("faultloom -v python").common.verbose, 1);
        let args = parsed("faultloom env python -vv --json");
        assert!(matches!(args.command, Command::Env(_)));
        assert_eq!((args.common.verbose, args.common.json), (2, true));
    }
}
