//! Arguments. Every verb has defaults that make sense with none.

mod agent;
mod fleet;
mod flip;
mod flip_live;
mod map;

pub use agent::{Agent, AgentPart, AgentUnit, Seeing, SeeingMode};
pub use fleet::{AgentServe, AgentTrust};
pub use flip::{Flip, FlipDraw, FlipPart, FlipReplay};
pub use flip_live::FlipLive;
pub use map::{Map, Origin, Range};

use clap::{Args as ClapArgs, Parser, Subcommand};
use std::path::PathBuf;

#[derive(Parser)]
#[command(name = "faultloom", version, about = "See a request whole, and break it on purpose.", max_term_width = 100)]
#[command(after_help = "Exit codes: 0 pass, 1 fail, 2 usage, 3 environment, 4 aborted, 5 unknown.")]
pub struct Args {
    #[command(flatten)]
    pub common: Common,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(ClapArgs, Clone)]
pub struct Common {
    /// Where runs, logs and keys are kept
    #[arg(long, global = true, env = "FAULTLOOM_HOME", default_value = ".faultloom")]
    pub home: PathBuf,
    /// The target file [default: target.yaml if there is one]. `doctor --target` looks at every service of it
    #[arg(long, short = 't', global = true, value_name = "FILE", num_args = 0..=1, default_missing_value = "target.yaml")]
    pub target: Option<PathBuf>,
    /// Trust settings of a target that somebody else runs
    #[arg(long, global = true, value_name = "FILE")]
    pub trust: Option<PathBuf>,
    /// Machine-readable output on standard output
    #[arg(long, global = true)]
    pub json: bool,
    /// No progress, only results
    #[arg(long, short, global = true)]
    pub quiet: bool,
}

#[derive(Subcommand)]
pub enum Command {
    /// Draft a target file for your own application, every guess explained
    Init(Init),
    /// Start the target's services and keep them until Ctrl-C
    Up(Up),
    /// Stop a target that was started with `up --detach`
    Down,
    /// What runs of the target
    Ps,
    /// Send a request and see everything it did, with or without faults
    Record(Record),
    /// Run whole spaces of faults and find the bugs in them
    Sweep(Sweep),
    /// What one wrong bit does to a program: a campaign of bit flips
    Flip(Box<Flip>),
    /// Past runs
    Runs(Runs),
    /// One run in the terminal
    Show(Show),
    /// What two runs did differently
    Diff(Diff),
    /// One self-contained HTML page for a run
    Report(Report),
    /// A run's trace for other tools: OTLP, Jaeger, Zipkin, Perfetto
    Export(Export),
    /// Traces that OpenTelemetry recorded, as a run: to show, to compare, to draw
    Import(Import),
    /// Which process depends on which, from the kernel's sockets
    Map(Map),
    /// What this machine and the target can and cannot do
    Doctor,
    /// Switch every fault at the target off, or on again
    Faults(Faults),
    /// How a service that `up` does not start gets its SDK and its keys
    Env(Env),
    /// The JSON Schema of a file of ours, for editors
    Schema(Schema),
    /// Watch this host: which process depends on which, from the kernel's sockets
    Agent(Agent),
    /// `go` with the SDK built in, without a change to your source
    #[command(disable_help_flag = true)]
    Go(Passed),
    /// `python` with the SDK loaded, without a change to your source
    #[command(disable_help_flag = true)]
    Python(Passed),
    /// Watches over started services (internal)
    #[command(hide = true)]
    Reaper,
    /// Flips bits, contained (internal)
    #[command(hide = true)]
    FlipEngine,
    /// Flips one bit in a running process (internal)
    #[command(hide = true)]
    FlipTracer,
}

#[derive(ClapArgs)]
pub struct Init {
    /// A compose file, a Procfile, or a folder with one of them or with start scripts [default: this folder]
    #[arg(conflicts_with_all = ["attach", "ports"])]
    pub from: Option<PathBuf>,
    /// From the listeners of this machine: services that run already
    #[arg(long)]
    pub attach: bool,
    /// Only this listener; may be repeated
    #[arg(long = "port", value_name = "PORT", requires = "attach", value_parser = clap::value_parser!(u16).range(1..))]
    pub ports: Vec<u16>,
    /// Where to write it [default: target.yaml]
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Name of the application
    #[arg(long)]
    pub name: Option<String>,
    /// Replace a file that is there
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
    /// Where it is started
    #[arg(long = "for", value_name = "FORM", default_value = "shell", value_parser = ["shell", "docker", "systemd", "kubernetes"])]
    pub form: String,
    /// Print the keys themselves as well
    #[arg(long)]
    pub show_keys: bool,
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
pub struct Up {
    /// Return when all are healthy; `faultloom down` stops them
    #[arg(long, short)]
    pub detach: bool,
    /// Says on standard output nothing but why it failed, as JSON (internal: the process behind --detach)
    #[arg(long, hide = true, conflicts_with = "detach")]
    pub behind: bool,
}

/// What to send.
#[derive(ClapArgs, Clone)]
pub struct Request {
    /// http://host:port/path or grpc://host:port/package.Service/Method [default: the target's entry]
    pub url: Option<String>,
    #[arg(long, short = 'X', value_name = "METHOD")]
    pub method: Option<String>,
    /// A header, `Name: value`; may be repeated
    #[arg(long, short = 'H', value_name = "HEADER")]
    pub header: Vec<String>,
    /// The body; for gRPC the message as JSON (needs --proto). @FILE reads a file
    #[arg(long, short, value_name = "TEXT")]
    pub data: Option<String>,
    /// The .proto file that describes a gRPC call
    #[arg(long, value_name = "FILE")]
    pub proto: Option<PathBuf>,
    /// Let the envelope pass services that know OpenTelemetry only: it travels in `traceparent` and `baggage` as well
    #[arg(long)]
    pub bridge: bool,
    /// Sent first, each time, without faults: 'POST http://host/cart product=1'; may be repeated. `{case}` in any part, also of the
    /// request itself, is a number that is new for every request, so that each can be a customer of its own
    #[arg(long, value_name = "METHOD URL [BODY]")]
    pub before: Vec<String>,
    /// Give up on a reply after so long
    #[arg(long, value_name = "MS", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=86_400_000))]
    pub timeout_ms: u64,
}

/// What the reply must be like.
#[derive(ClapArgs, Clone)]
pub struct Expect {
    /// Statuses that are right: 200,302 [default: below 500; gRPC: 0]
    #[arg(long, value_name = "CODES")]
    pub expect_status: Option<String>,
    /// A regular expression the body must match
    #[arg(long, value_name = "REGEX")]
    pub expect_body: Option<String>,
    /// A value the JSON body must have: '$.cart.size=0'; may be repeated
    #[arg(long, value_name = "PATH=VALUE")]
    pub expect_json: Vec<String>,
    /// The longest the reply may take
    #[arg(long, value_name = "MS")]
    pub max_latency_ms: Option<u64>,
}

impl Request {
    pub fn spec(&self) -> app::request::Request {
        app::request::Request {
            url: self.url.clone(),
            method: self.method.clone(),
            headers: self.header.clone(),
            data: self.data.clone(),
            proto: self.proto.clone(),
            bridge: self.bridge,
            before: self.before.clone(),
            timeout_ms: Some(self.timeout_ms),
        }
    }
}

impl Expect {
    pub fn spec(&self) -> app::request::Expect {
        app::request::Expect {
            status: self.expect_status.clone(),
            body: self.expect_body.clone(),
            json: self.expect_json.clone(),
            max_latency_ms: self.max_latency_ms,
        }
    }
}

#[derive(ClapArgs)]
pub struct Record {
    /// List the entry points seen so far, each with its command, instead of sending anything
    #[arg(long, conflicts_with_all = ["url", "faults", "against", "count", "data", "method", "header", "proto", "before"])]
    pub discover: bool,
    #[command(flatten)]
    pub request: Request,
    #[command(flatten)]
    pub expect: Expect,
    /// A fault: 'currency/Convert unavailable after GetCurrencies×1'; may be repeated
    #[arg(long = "fault", short = 'f', value_name = "FAULT")]
    pub faults: Vec<String>,
    /// Check faults against this run instead of sending the request once without faults
    #[arg(long, value_name = "RUN")]
    pub against: Option<String>,
    /// How many requests
    #[arg(long, short = 'n', default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub count: u64,
    /// Draw every call
    #[arg(long)]
    pub all: bool,
}

#[derive(ClapArgs)]
pub struct Sweep {
    #[command(flatten)]
    pub request: Request,
    #[command(flatten)]
    pub expect: Expect,
    /// services, all-services, temporal, crash-points, guided; may be repeated [default: services, crash-points, guided]
    #[arg(long = "space", short = 's', value_name = "SPACE")]
    pub spaces: Vec<String>,
    /// What a fault does: unavailable, reset, deadline, 'status 13', 'delay 200ms', hang, lost-reply, empty-reply, corrupt-reply; may be repeated
    #[arg(long = "kind", short = 'k', value_name = "KIND", default_value = "unavailable")]
    pub kinds: Vec<String>,
    /// Requests in flight at once
    #[arg(long, short, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=512))]
    pub concurrency: u16,
    /// Go on with a sweep that was interrupted, with what it was asked then
    #[arg(long, value_name = "RUN", conflicts_with_all = ["url", "spaces", "kinds", "method", "header", "data", "proto", "timeout_ms", "bridge", "expect_status", "expect_body", "expect_json", "max_latency_ms"])]
    pub resume: Option<String>,
    /// Write a JUnit file
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
}

#[derive(ClapArgs)]
pub struct Runs {
    /// How many, newest first
    #[arg(long, short = 'n', default_value_t = 20)]
    pub limit: i64,
    /// Remove a run and its files
    #[arg(long, value_name = "RUN")]
    pub delete: Option<String>,
}

#[derive(ClapArgs)]
pub struct Show {
    /// Id (any unambiguous end or beginning), or `last`
    #[arg(default_value = "last")]
    pub run: String,
    /// Draw every call
    #[arg(long)]
    pub all: bool,
}

#[derive(ClapArgs)]
pub struct Diff {
    pub before: String,
    pub after: String,
}

#[derive(ClapArgs)]
pub struct Report {
    #[arg(default_value = "last")]
    pub run: String,
    /// Where to write it [default: in the run's folder]
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(ClapArgs)]
pub struct Export {
    /// Id (any unambiguous end or beginning), or `last`. Of a sweep: its good run
    #[arg(default_value = "last")]
    pub run: String,
    #[arg(long, value_enum, default_value_t = ExportFormat::Otlp)]
    pub format: ExportFormat,
    /// Of a sweep: the request that shows this bug, by its number
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub bug: Option<u64>,
    /// Where to write it [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
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
