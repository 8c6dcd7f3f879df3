//! The spec of a campaign of flips, and its resolution into the spec that is stored and run.

use crate::spec::Version;
use crate::{Context, register_schema};
use ::campaign::spec::counts_for_width;
use ::campaign::{External, Judge, Rules, Spec, VariantSpec};
use bit_flips::engine_messages::{Draw, Limits, Program, Replay, Sites, Stepper};
use model::Failure;
use model::flip::{BitPolicy, FlipType};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Flips per type by default: a few seconds for a small program.
const COUNT: u32 = 200;

/// A program, the flips to make in it, and how its outputs are judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlipSpec {
    pub version: Version<1>,
    /// The program and its arguments.
    #[serde(default)]
    pub program: Vec<String>,
    /// Further programs to compare with it: `NAME=COMMAND`.
    #[serde(default)]
    pub variants: Vec<String>,
    /// Standard input of the program.
    #[serde(default)]
    pub stdin: Option<PathBuf>,
    /// Files to have in the working directory.
    #[serde(default)]
    pub files: Vec<PathBuf>,
    /// Environment variables, `NAME=VALUE`; only PATH is inherited.
    #[serde(default)]
    pub env: Vec<String>,
    /// The program is a server, and its clients send this input trace.
    #[serde(default)]
    pub replay: Option<PathBuf>,
    /// How many of the trace's connections may have unanswered input at a time.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 4096))]
    pub connections: u32,
    /// A reference run of more instructions is refused.
    #[serde(default = "default_instructions")]
    #[schemars(range(min = 1))]
    pub max_instructions: u64,
    /// How the process is run up to a flip: `block`, or `step`, which is slow.
    #[serde(default)]
    #[schemars(with = "String")]
    pub stepper: Stepper,
    #[serde(default)]
    pub draw: DrawSpec,
    #[serde(default)]
    pub sites: SiteSpec,
    #[serde(default)]
    pub judge: JudgeSpec,
    /// Instead of flips: a disturbance of the user's own.
    #[serde(default)]
    pub external: Option<ExternalSpec>,
}

register_schema!("flip", FlipSpec);

/// An interrupted campaign to resume with its stored spec.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResumeSpec {
    pub version: Version<1>,
    /// Its id (any unambiguous beginning or end), or `last`.
    pub run: String,
}

register_schema!("flip-resume", ResumeSpec);

fn one() -> u32 {
    1
}

fn default_instructions() -> u64 {
    400_000_000
}

/// Which flips are drawn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DrawSpec {
    /// CF, WREG, WVAL, WADDR, RADDR, RREG, RVAL, TEXT, ASC; default: the first seven.
    #[schemars(with = "Vec<String>")]
    pub types: Vec<FlipType>,
    /// Flips per type; default 200.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub count: Option<u32>,
    /// As many flips as make the intervals at most this wide, as a share from 0.0001 to 1. Replaces `count`.
    #[schemars(range(min = 0.0001, max = 1))]
    pub width: Option<f64>,
    /// Which bits may flip: `full` or `low32`.
    #[schemars(with = "String")]
    pub bits: BitPolicy,
    pub seed: u64,
    /// Fault-free runs among the flips.
    #[schemars(range(max = 1_000_000))]
    pub controls: u32,
}

impl Default for DrawSpec {
    fn default() -> DrawSpec {
        DrawSpec { types: Vec::new(), count: None, width: None, bits: BitPolicy::default(), seed: 1, controls: 20 }
    }
}

/// Where flips may be injected. All that is given must hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SiteSpec {
    /// Only in these functions.
    pub symbols: Vec<String>,
    /// Only in these programs or libraries, by file name.
    pub libraries: Vec<String>,
    /// Only while these functions run, including all that they call.
    pub handlers: Vec<String>,
    /// Not in these programs or libraries.
    pub except: Vec<String>,
    /// Only in the work for this reply of the program, from 0.
    pub reply: Option<usize>,
    /// Then also try every flip in that work.
    pub exhaustive: bool,
}

/// How outputs are judged, as a client of the program would.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct JudgeSpec {
    /// How outputs are parsed: `lines`, `memcached` or `dns`.
    pub protocol: String,
    /// The checksum that clients verify: `crc-line`.
    pub check: Option<String>,
    /// The exit status by which a hardened program stops itself.
    pub abort_status: Option<i32>,
    /// What a hardened program writes to standard error when it stops itself.
    pub abort_marker: Option<String>,
    /// Lines that begin with one of these are error messages.
    pub errors: Vec<String>,
    /// A command that classifies each deviating output.
    pub command: Option<String>,
    /// The exit status of the undisturbed program. Another one is refused as a failure.
    #[schemars(range(min = 0, max = 255))]
    pub expect_exit: i32,
}

impl Default for JudgeSpec {
    fn default() -> JudgeSpec {
        JudgeSpec {
            protocol: "lines".to_owned(),
            check: None,
            abort_status: None,
            abort_marker: None,
            errors: Vec::new(),
            command: None,
            expect_exit: 0,
        }
    }
}

/// Runs that are judged while a command disturbs the machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExternalSpec {
    pub command: String,
    /// How many runs.
    pub runs: u32,
    /// A server that runs already, `host:port`, instead of a program.
    #[serde(default)]
    pub server: Option<String>,
    /// How long a run may take, in milliseconds.
    pub run_timeout_ms: u64,
}

impl FlipSpec {
    /// What is stored and run. Everything wrong with the spec is refused here, before anything runs.
    ///
    /// # Errors
    /// Request: a program, file or name that does not exist, or options that exclude each other.
    pub fn resolve(&self, context: &Context) -> Result<Spec, Failure> {
        let rules = rules(&self.judge)?;
        let variants = commands(context, self)?
            .into_iter()
            .map(|(name, argv)| VariantSpec::new(name, program(context, self, argv)?));
        let variants = variants.collect::<Result<Vec<_>, Failure>>()?;
        let external = self.external.as_ref().map(|external| External {
            command: external.command.clone(),
            runs: external.runs,
            server: external.server.clone(),
            timeout_ms: external.run_timeout_ms,
        });
        let draw = draw(&self.draw);
        if self.sites.exhaustive {
            let types: Vec<FlipType> = draw.types.iter().map(|(kind, _)| *kind).collect();
            bit_flips::engine::exhaustive::check_types(&types)?;
        }
        Ok(Spec { variants, draw, rules, exhaustive: self.sites.exhaustive, external, live: None })
    }
}

fn rules(judge: &JudgeSpec) -> Result<Rules, Failure> {
    let rules = Rules {
        protocol: judge.protocol.clone(),
        check: judge.check.clone(),
        abort_status: judge.abort_status,
        abort_marker: judge.abort_marker.clone(),
        errors: judge.errors.clone(),
        command: judge.command.clone(),
        expect_exit: judge.expect_exit,
    };
    Judge::new(&rules)?;
    if !rules.errors.is_empty() && rules.protocol != "lines" {
        return Err(Failure::request("prefixes of error messages (--error) are for the protocol 'lines'")
            .why(format!("{} has error messages of its own", rules.protocol))
            .field("judge.errors"));
    }
    Ok(rules)
}

fn draw(spec: &DrawSpec) -> Draw {
    let mut types: Vec<FlipType> = if spec.types.is_empty() { FlipType::PAPER.to_vec() } else { spec.types.clone() };
    types.sort_unstable();
    types.dedup();
    let types = match spec.width {
        Some(width) => counts_for_width(&types, width),
        None => types.into_iter().map(|kind| (kind, spec.count.unwrap_or(COUNT))).collect(),
    };
    Draw { seed: spec.seed, bits: spec.bits, types, controls: spec.controls }
}

/// The names and commands of all variants, the one after `--` first.
fn commands(context: &Context, spec: &FlipSpec) -> Result<Vec<(String, Vec<String>)>, Failure> {
    let server = spec.external.as_ref().and_then(|external| external.server.as_ref());
    let mut commands: Vec<(String, Vec<String>)> = Vec::new();
    match (spec.program.first(), server) {
        (Some(_), Some(_)) => {
            return Err(
                Failure::request("a server that runs already (--server) excludes a program").field("external.server")
            );
        }
        (Some(program), None) => commands.push((file_name(program), spec.program.clone())),
        (None, Some(server)) => {
            let port =
                server.rsplit_once(':').filter(|(host, _)| !host.is_empty()).map(|(_, port)| port.parse::<u16>());
            if !matches!(port, Some(Ok(1..))) {
                return Err(Failure::request(format!("the server '{server}' is not HOST:PORT"))
                    .next("such as 127.0.0.1:11211")
                    .field("external.server"));
            }
            return Ok(vec![(server.clone(), Vec::new())]);
        }
        (None, None) => {}
    }
    for text in &spec.variants {
        let (name, command) = text.split_once('=').ok_or_else(|| {
            Failure::request(format!("the variant '{text}' is not NAME=COMMAND"))
                .next("such as hardened=./server-hardened")
                .field("variants")
        })?;
        let argv = shell_words::split(command)
            .map_err(|_| Failure::request(format!("the variant '{text}': a quote is not closed")).field("variants"))?;
        let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if name.is_empty() || !name.chars().all(fits) || argv.is_empty() {
            return Err(Failure::request(format!("the variant '{text}' is not NAME=COMMAND"))
                .why("a name has letters, digits, '.', '_' or '-'")
                .field("variants"));
        }
        commands.push((name.to_owned(), argv));
    }
    if commands.is_empty() {
        return Err(Failure::request("no program to flip bits in")
            .next(format!("{} -- ./program ARGUMENTS", context.command("flip")))
            .field("program"));
    }
    let mut names: Vec<&str> = commands.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    match names.windows(2).find(|two| two[0] == two[1]) {
        Some(two) => Err(Failure::request(format!("two variants are named '{}'", two[0])).field("variants")),
        None => Ok(commands),
    }
}

fn file_name(program: &str) -> String {
    Path::new(program).file_name().map_or_else(|| program.to_owned(), |name| name.to_string_lossy().into_owned())
}

fn program(context: &Context, spec: &FlipSpec, mut argv: Vec<String>) -> Result<Program, Failure> {
    if let Some(name) = argv.first_mut() {
        let path = executable(context, name)?;
        *name = path
            .into_os_string()
            .into_string()
            .map_err(|path| Failure::request(format!("{} is not UTF-8", path.to_string_lossy())))?;
    }
    let replay = match &spec.replay {
        None => None,
        Some(input) => Some(Replay { input: file(input)?, width: spec.connections }),
    };
    Ok(Program {
        argv,
        env: env(&spec.env)?,
        stdin: spec.stdin.as_deref().map(file).transpose()?,
        files: spec.files.iter().map(|path| file(path)).collect::<Result<_, _>>()?,
        replay,
        limits: Limits { instructions: spec.max_instructions, ..Limits::default() },
        sites: Sites {
            symbols: spec.sites.symbols.clone(),
            libraries: spec.sites.libraries.clone(),
            handlers: spec.sites.handlers.clone(),
            except: spec.sites.except.clone(),
            reply: spec.sites.reply,
        },
        stepper: spec.stepper,
    })
}

/// Independent of user and machine: messages in English, no variables of the user.
fn env(variables: &[String]) -> Result<Vec<(String, String)>, Failure> {
    let mut env = vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned()), ("LC_ALL".to_owned(), "C".to_owned())];
    for text in variables {
        let (name, value) = text
            .split_once('=')
            .filter(|(name, _)| !name.is_empty())
            .ok_or_else(|| Failure::request(format!("the variable '{text}' (--env) is not NAME=VALUE")).field("env"))?;
        env.retain(|(other, _)| other != name);
        env.push((name.to_owned(), value.to_owned()));
    }
    Ok(env)
}

fn file(path: &Path) -> Result<PathBuf, Failure> {
    let whole = std::path::absolute(path).ok().filter(|path| path.is_file());
    whole.ok_or_else(|| Failure::request(format!("{} is not a file", path.display())))
}

/// Resolved as a shell does. Links are not followed, because some programs depend on the name by which they are called.
fn executable(context: &Context, name: &str) -> Result<PathBuf, Failure> {
    use std::os::unix::fs::PermissionsExt;
    let is_program = |path: &PathBuf| {
        std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    let missing = || Failure::request(format!("there is no program '{name}'"));
    if name.contains('/') {
        return std::path::absolute(name).ok().filter(is_program).ok_or_else(missing);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(is_program)
        .ok_or_else(|| missing().next(format!("name it by its path: {} -- ./{name}", context.command("flip"))))
}
