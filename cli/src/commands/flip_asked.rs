//! What `faultloom flip` was asked, as a campaign keeps it. Everything wrong with it is said before anything runs.

use crate::args::{Flip, FlipDraw};
use bit_flips::engine_messages::{Draw, Limits, Program, Replay, Sites};
use campaign::spec::counts_for_width;
use campaign::{External, Judge, Rules, Spec, VariantSpec};
use model::Failure;
use model::flip::FlipType;
use std::path::{Path, PathBuf};

/// Flips per type, if nothing else is asked: a few seconds for a small program.
const COUNT: u32 = 200;

pub fn spec(args: &Flip) -> Result<Spec, Failure> {
    let rules = rules(args)?;
    let commands = commands(args)?;
    let variants = commands.into_iter().map(|(name, argv)| VariantSpec::new(name, program(args, argv)?));
    let variants = variants.collect::<Result<Vec<_>, Failure>>()?;
    let external = args.external.external.clone().map(|command| External {
        command,
        runs: args.external.runs,
        server: args.external.server.clone(),
        timeout_ms: args.external.run_timeout_ms,
    });
    let draw = draw(&args.draw);
    if args.sites.exhaustive {
        let types: Vec<FlipType> = draw.types.iter().map(|(kind, _)| *kind).collect();
        bit_flips::engine::exhaustive::check_types(&types)?;
    }
    Ok(Spec { variants, draw, rules, exhaustive: args.sites.exhaustive, external, live: None })
}

fn rules(args: &Flip) -> Result<Rules, Failure> {
    let asked = &args.judge;
    let rules = Rules {
        protocol: asked.protocol.clone(),
        check: asked.check.clone(),
        abort_status: asked.abort_status,
        abort_marker: asked.abort_marker.clone(),
        errors: asked.errors.clone(),
        command: asked.command.clone(),
    };
    Judge::new(&rules)?;
    if !rules.errors.is_empty() && rules.protocol != "lines" {
        return Err(
            Failure::request("--error is for lines").why(format!("{} has error messages of its own", rules.protocol))
        );
    }
    Ok(rules)
}

fn draw(asked: &FlipDraw) -> Draw {
    let mut types: Vec<FlipType> = if asked.types.is_empty() { FlipType::PAPER.to_vec() } else { asked.types.clone() };
    types.sort_unstable();
    types.dedup();
    let types = match asked.width {
        Some(width) => counts_for_width(&types, width),
        None => types.into_iter().map(|kind| (kind, asked.count.unwrap_or(COUNT))).collect(),
    };
    Draw { seed: asked.seed, bits: asked.bits, types, controls: asked.controls }
}

/// The names and commands of all variants, the one after `--` first.
fn commands(args: &Flip) -> Result<Vec<(String, Vec<String>)>, Failure> {
    let mut commands: Vec<(String, Vec<String>)> = Vec::new();
    match (&args.program.first(), &args.external.server) {
        (Some(_), Some(_)) => {
            return Err(Failure::request("--server is a server that runs already: no program goes with it"));
        }
        (Some(program), None) => commands.push((file_name(program), args.program.clone())),
        (None, Some(server)) => {
            let port =
                server.rsplit_once(':').filter(|(host, _)| !host.is_empty()).map(|(_, port)| port.parse::<u16>());
            if !matches!(port, Some(Ok(1..))) {
                return Err(Failure::request(format!("--server '{server}' is not HOST:PORT"))
                    .next("such as --server 127.0.0.1:11211"));
            }
            return Ok(vec![(server.clone(), Vec::new())]);
        }
        (None, None) => {}
    }
    for text in &args.what.variants {
        let (name, command) = text.split_once('=').ok_or_else(|| {
            Failure::request(format!("--variant '{text}' is not NAME=COMMAND"))
                .next("such as --variant hardened=./server-hardened")
        })?;
        let argv = shell_words::split(command)
            .map_err(|_| Failure::request(format!("--variant '{text}': a quote is not closed")))?;
        let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if name.is_empty() || !name.chars().all(fits) || argv.is_empty() {
            return Err(Failure::request(format!("--variant '{text}' is not NAME=COMMAND"))
                .why("a name has letters, digits, '.', '_' or '-'"));
        }
        commands.push((name.to_owned(), argv));
    }
    if commands.is_empty() {
        return Err(
            Failure::request("nothing says which program to disturb").next("faultloom flip -- ./program ARGUMENTS")
        );
    }
    let mut names: Vec<&str> = commands.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    match names.windows(2).find(|two| two[0] == two[1]) {
        Some(two) => Err(Failure::request(format!("two variants are named '{}'", two[0]))),
        None => Ok(commands),
    }
}

fn file_name(program: &str) -> String {
    Path::new(program).file_name().map_or_else(|| program.to_owned(), |name| name.to_string_lossy().into_owned())
}

fn program(args: &Flip, mut argv: Vec<String>) -> Result<Program, Failure> {
    let what = &args.what;
    if let Some(name) = argv.first_mut() {
        let path = found(name)?;
        *name = path
            .into_os_string()
            .into_string()
            .map_err(|path| Failure::request(format!("{} is not UTF-8", path.to_string_lossy())))?;
    }
    let replay = match &what.replay {
        None => None,
        Some(input) => Some(Replay { input: file(input)?, width: what.connections }),
    };
    Ok(Program {
        argv,
        env: env(&what.env)?,
        stdin: what.stdin.as_deref().map(file).transpose()?,
        files: what.files.iter().map(|path| file(path)).collect::<Result<_, _>>()?,
        replay,
        limits: Limits { instructions: what.max_instructions, ..Limits::default() },
        sites: Sites {
            symbols: args.sites.symbols.clone(),
            libraries: args.sites.libraries.clone(),
            handlers: args.sites.handlers.clone(),
            except: args.sites.except.clone(),
            reply: args.sites.reply,
        },
        stepper: what.stepper,
    })
}

/// The same for whoever runs it and wherever: messages in English, no surprise from the user's own settings.
fn env(asked: &[String]) -> Result<Vec<(String, String)>, Failure> {
    let mut env = vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned()), ("LC_ALL".to_owned(), "C".to_owned())];
    for text in asked {
        let (name, value) = text
            .split_once('=')
            .filter(|(name, _)| !name.is_empty())
            .ok_or_else(|| Failure::request(format!("--env '{text}' is not NAME=VALUE")))?;
        env.retain(|(known, _)| known != name);
        env.push((name.to_owned(), value.to_owned()));
    }
    Ok(env)
}

fn file(path: &Path) -> Result<PathBuf, Failure> {
    let whole = std::path::absolute(path).ok().filter(|path| path.is_file());
    whole.ok_or_else(|| Failure::request(format!("{} is no file", path.display())))
}

/// As a shell finds it. A link stays one: some programs go by the name they are called by.
fn found(name: &str) -> Result<PathBuf, Failure> {
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
        .ok_or_else(|| missing().next(format!("name it by its path: faultloom flip -- ./{name}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Args, Command};
    use clap::Parser;

    fn asked(words: &[&str]) -> Result<Spec, Failure> {
        match Args::try_parse_from(["faultloom", "flip"].iter().chain(words)).unwrap().command {
            Command::Flip(args) => spec(&args),
            _ => unreachable!("flip was asked"),
        }
    }

    #[test]
    fn defaults_make_sense_with_nothing_but_a_program() {
        let spec = asked(&["--", "true", "-x"]).unwrap();
        assert_eq!(spec.draw.types.len(), 7);
        assert_eq!(spec.variants[0].name, "true");
        assert!(spec.variants[0].program.argv[0].ends_with("/bin/true") && spec.variants[0].program.argv[1] == "-x");
        assert_eq!(spec.rules.protocol, "lines");
    }

    #[test]
    fn variants_have_names_and_commands() {
        let spec =
            asked(&["--variant", "b=true 'x y' \"\"", "--types", "cf,rreg,cf", "-n", "5", "--", "true"]).unwrap();
        assert_eq!(spec.variants[1].program.argv[1..], ["x y", ""]);
        assert_eq!(spec.draw.types, [(FlipType::Cf, 5), (FlipType::Rreg, 5)]);
        for (words, why) in [
            (vec!["--variant", "true=true", "--", "true"], "two variants are named 'true'"),
            (vec!["--variant", "x", "--", "true"], "NAME=COMMAND"),
            (vec!["--variant", "x=true 'y", "--", "true"], "not closed"),
            (vec![], "which program"),
            (vec!["--", "no-such-program"], "no program"),
            (vec!["--stdin", "/no/such", "--", "true"], "is no file"),
            (vec!["--env", "x", "--", "true"], "NAME=VALUE"),
            (vec!["--external", "true", "--replay", "/dev/null", "--server", "localhost"], "is not HOST:PORT"),
            (vec!["--protocol", "http", "--", "true"], "no protocol 'http'"),
            (vec!["--protocol", "dns", "--error", "x", "--", "true"], "--error is for lines"),
            (
                vec!["--reply", "0", "--exhaustive", "--types", "CF,ASC", "--", "true"],
                "ASC cannot be tried exhaustively",
            ),
        ] {
            let failure = asked(&words).unwrap_err();
            assert!(failure.to_string().contains(why) && failure.exit() == model::Exit::Usage, "{failure}");
        }
    }
}
