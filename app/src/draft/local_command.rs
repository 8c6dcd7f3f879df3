//! Translates a container's command into one that starts the service from its source.
//!
//! In a container, programs are at absolute paths to which they were built or copied. On this machine they are where
//! the language's tools put them: a Go binary in `bin/`, a jar in `target/` or `build/libs/`, Python's programs in a
//! virtual environment. If the program is ambiguous, the command becomes a TODO.

use super::{Build, Command, Guess, guess, likely, maven, open};
use std::path::Path;
use target::Sdk;

pub struct Local {
    pub command: Guess<Command>,
    /// What has to be run before, in the service's folder.
    pub build: Option<Build>,
}

/// `folder`: the folder of the source, `shown` in messages. `container`: the container's command and its source.
/// `workdir`: the working directory in the container.
pub fn local(
    name: &str,
    folder: &Path,
    shown: &str,
    sdk: Sdk,
    container: Option<(Command, String)>,
    workdir: Option<&str>,
) -> Local {
    let (command, from) = match container {
        Some((command, from)) => (Some(command), from),
        None => (None, format!("found no command for {name}")),
    };
    let plain = |command: Command| Local { command: likely(command, from.clone()), build: None };
    let words = match &command {
        Some(Command::Words(words)) => Some(words.clone()),
        // a line without shell syntax needs no shell
        Some(Command::Shell(text)) if !text.contains(['$', '|', '&', ';', '<', '>', '`', '*', '(']) => {
            Some(self::words(text.trim_start_matches("exec ")))
        }
        _ => None,
    };
    match sdk {
        Sdk::Go => match words.as_deref() {
            Some([first, ..]) if first == "go" => plain(Command::Words(words.unwrap_or_default())),
            _ => go(name, folder, words, &from),
        },
        Sdk::Java => java(folder, shown, words, &from),
        Sdk::Node => node(folder, shown, command, words, workdir, &from),
        Sdk::Python => python(folder, shown, command, words, workdir, &from),
        Sdk::None => match command {
            Some(Command::Words(words)) if words.first().is_some_and(|first| is_only_in_image(first)) => {
                unknown_command(&format!("which program? {} exists only in the container", words[0]), from, None)
            }
            Some(command) => plain(command),
            None => unknown_command("how is it started?", from, None),
        },
    }
}

/// Whether the program exists in the image only.
fn is_only_in_image(program: &str) -> bool {
    program.starts_with('/') && !Path::new(program).exists()
}

fn unknown_command(question: &str, from: String, build: Option<Build>) -> Local {
    let Guess { value, from, confidence } = open(question, from);
    Local { command: Guess { value: Command::Shell(value), from, confidence }, build }
}

fn go(name: &str, folder: &Path, words: Option<Vec<String>>, from: &str) -> Local {
    let rest = if words.is_some() { format!("; arguments: {from}") } else { String::new() };
    let arguments = words.map(|words| words.into_iter().skip(1).collect::<Vec<_>>()).unwrap_or_default();
    let Some(package) = go_package(name, folder) else {
        return unknown_command("which binary? build it with `faultloom go build -o bin/ ./…`", from.to_owned(), None);
    };
    let binary = format!("./bin/{name}");
    Local {
        command: guess(
            Command::Words([vec![binary], arguments].concat()),
            format!("built from package {package}{rest}"),
        ),
        build: Some(Build::Go { output: format!("bin/{name}"), package }),
    }
}

/// The main package: the folder itself, `cmd/<name>`, or the only one below `cmd`.
pub fn go_package(name: &str, folder: &Path) -> Option<String> {
    if folder.join("main.go").is_file() {
        return Some(".".to_owned());
    }
    if folder.join("cmd").join(name).is_dir() {
        return Some(format!("./cmd/{name}"));
    }
    let mains: Vec<String> = std::fs::read_dir(folder.join("cmd"))
        .ok()?
        .flatten()
        .filter(|entry| entry.path().join("main.go").is_file())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    match mains.as_slice() {
        [only] => Some(format!("./cmd/{only}")),
        _ if folder.join("cmd/main.go").is_file() => Some("./cmd".to_owned()),
        _ => None,
    }
}

fn java(folder: &Path, shown: &str, words: Option<Vec<String>>, from: &str) -> Local {
    let maven = folder.join("pom.xml").is_file();
    let build = match (maven, folder.join("mvnw").is_file(), folder.join("gradlew").is_file()) {
        (true, true, _) => Some("./mvnw -q package -DskipTests"),
        (true, false, _) => Some("mvn -q package -DskipTests"),
        (false, _, true) => Some("./gradlew build -x test"),
        _ => None,
    };
    let build = build.map(|line| Build::Shell(line.to_owned()));
    let output = if maven { "target" } else { "build/libs" };
    let words = words.filter(|words| words.first().is_some_and(|first| first.rsplit('/').next() == Some("java")));
    let found = only_jar(&folder.join(output)).map(|jar| (jar, format!("the only jar in {output} of {shown}")));
    let pom = || std::fs::read_to_string(folder.join("pom.xml")).ok();
    let packaged = || Some((maven::Project::parse(&pom()?).jar()?, format!("the jar that {shown}pom.xml packages")));
    let jar = found.or_else(packaged).map(|(jar, from)| (format!("{output}/{jar}"), from));
    let rest = if words.is_some() { format!("; the rest: {from}") } else { String::new() };
    // a command without a jar names a class and a class path in the container
    let words = words.unwrap_or_else(|| vec!["java".into(), "-jar".into(), "app.jar".into()]);
    if let Some(source) = words.iter().position(|word| word.ends_with(".java")) {
        let mut words = words;
        words[0] = "java".to_owned();
        words[source] = inside(&words[source], None, folder);
        return Local { command: likely(Command::Words(words), from), build: None };
    }
    let Some(at) = words.iter().position(|word| word.ends_with(".jar")) else {
        return unknown_command("how is it started from its build folder?", from.to_owned(), build);
    };
    let mut words = words;
    words[0] = "java".to_owned();
    if folder.join(&words[at]).is_file() && !words[at].starts_with('/') {
        return Local { command: likely(Command::Words(words), from), build };
    }
    match jar {
        Some((jar, of_jar)) => {
            words[at] = jar;
            let from = format!("{of_jar}{rest}");
            Local { command: guess(Command::Words(words), from), build }
        }
        None => {
            let from = format!("{from}; {output} of {shown} has no jar, or several");
            words[at] = format!("{output}/….jar");
            unknown_command(&format!("which jar? such as {}", words.join(" ")), from, build)
        }
    }
}

fn only_jar(folder: &Path) -> Option<String> {
    let extra = ["-sources.jar", "-javadoc.jar", "-plain.jar", "-tests.jar", "original-"];
    let jars: Vec<String> = std::fs::read_dir(folder)
        .ok()?
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.ends_with(".jar") && !extra.iter().any(|word| name.contains(word)))
        .collect();
    match jars.as_slice() {
        [only] => Some(only.clone()),
        _ => None,
    }
}

fn node(
    folder: &Path,
    shown: &str,
    command: Option<Command>,
    words: Option<Vec<String>>,
    workdir: Option<&str>,
    from: &str,
) -> Local {
    let package: serde_json::Value = std::fs::read_to_string(folder.join("package.json"))
        .ok()
        .and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or_default();
    let modules = package["dependencies"].as_object().is_some_and(|dependencies| !dependencies.is_empty());
    let install = (modules && !folder.join("node_modules").is_dir()).then_some("npm install");
    let compile = package["scripts"]["build"].as_str().map(|_| "npm run build");
    let steps: Vec<&str> = install.into_iter().chain(compile).collect();
    let build = (!steps.is_empty()).then(|| Build::Shell(steps.join(" && ")));
    // without npm in between, signals and variables reach the program
    let script = |name: &str| package["scripts"][name].as_str().map(|line| (self::words(line), name.to_owned()));
    let from_npm = words.as_ref().and_then(|words| {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["npm" | "yarn" | "pnpm", "start"] | ["npm" | "pnpm", "run", "start"] => script("start"),
            ["npm" | "yarn" | "pnpm", "run", name] => script(name),
            [] => script("start"),
            _ => None,
        }
    });
    let from_npm = from_npm.or_else(|| if command.is_none() { script("start") } else { None });
    if let Some((words, name)) = from_npm.filter(|(words, _)| words.first().is_some_and(|first| first == "node")) {
        let from = format!("scripts.{name} of package.json in {shown}");
        return Local { command: likely(Command::Words(words), from), build };
    }
    match (words, command) {
        (Some(words), _) if !words.is_empty() => {
            let words = words.iter().map(|word| inside(word, workdir, folder)).collect();
            Local { command: likely(Command::Words(words), from), build }
        }
        (_, Some(command)) => Local { command: likely(command, from), build },
        (_, None) => match package["main"].as_str().filter(|main| folder.join(main).is_file()) {
            Some(main) => {
                let from = format!("main of package.json in {shown}");
                Local { command: guess(Command::Words(vec!["node".into(), main.to_owned()]), from), build }
            }
            None => unknown_command("how is it started? such as node server.js", from.to_owned(), build),
        },
    }
}

fn python(
    folder: &Path,
    shown: &str,
    command: Option<Command>,
    words: Option<Vec<String>>,
    workdir: Option<&str>,
    from: &str,
) -> Local {
    let venv = [".venv", "venv", "env"].into_iter().find(|name| folder.join(name).join("bin/python").exists());
    let needs_venv = folder.join("requirements.txt").is_file() && venv.is_none();
    let install = "python3 -m venv .venv && .venv/bin/pip install -r requirements.txt";
    let build = needs_venv.then(|| Build::Shell(install.to_owned()));
    let venv = venv.or(needs_venv.then_some(".venv"));
    let Some(words) = words.filter(|words| !words.is_empty()) else {
        return match command {
            Some(command) => Local { command: likely(command, from), build },
            None => match ["app.py", "main.py", "server.py"].into_iter().find(|file| folder.join(file).is_file()) {
                Some(file) => {
                    let words = with_venv(vec!["python".into(), file.into()], venv);
                    Local { command: guess(Command::Words(words), format!("{file} in {shown}")), build }
                }
                None => unknown_command("how is it started? such as python app.py", from.to_owned(), build),
            },
        };
    };
    let words: Vec<String> = words.iter().map(|word| inside(word, workdir, folder)).collect();
    let from = match venv {
        Some(venv) => format!("{from}; its programs in {venv}"),
        None => from.to_owned(),
    };
    Local { command: likely(Command::Words(with_venv(words, venv)), from), build }
}

/// The program from the virtual environment; without one, Debian's name of Python.
fn with_venv(mut words: Vec<String>, venv: Option<&str>) -> Vec<String> {
    let program = words[0].rsplit('/').next().unwrap_or_default().to_owned();
    let local = words[0].starts_with("./") || (words[0].contains('/') && !words[0].starts_with('/'));
    match venv {
        Some(venv) if !local => words[0] = format!("{venv}/bin/{program}"),
        None if program == "python" => words[0] = "python3".to_owned(),
        _ => {}
    }
    words
}

/// A path in the container, relative to the source's folder: `/app/server.js` is `server.js` if the container's working
/// directory is `/app`, or if the folder has a file of that name.
fn inside(word: &str, workdir: Option<&str>, folder: &Path) -> String {
    if !word.starts_with('/') {
        return word.to_owned();
    }
    let below = workdir.and_then(|workdir| word.strip_prefix(workdir)?.strip_prefix('/'));
    let mut rest = &word[1..];
    loop {
        if folder.join(rest).is_file() {
            return rest.to_owned();
        }
        match rest.split_once('/') {
            Some((_, shorter)) => rest = shorter,
            None => return below.unwrap_or(word).to_owned(),
        }
    }
}

/// Words as a shell splits them, without variables or substitution. A text with an unclosed quote is split at spaces.
pub fn words(text: &str) -> Vec<String> {
    shell_words::split(text).unwrap_or_else(|_| text.split_whitespace().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_as_a_shell_does() {
        assert_eq!(words(r#"a 'b c' "d\"e" f\ g '' h"#), ["a", "b c", "d\"e", "f g", "", "h"]);
        assert_eq!(words("  "), [""; 0]);
    }

    #[test]
    fn paths_of_the_container_become_paths_of_the_folder() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert_eq!(inside("/app/server.js", Some("/app"), folder), "server.js");
        assert_eq!(inside("/application/x", Some("/app"), folder), "/application/x");
        assert_eq!(inside("/srv/x/src/lib.rs", None, folder), "src/lib.rs");
        assert_eq!(with_venv(vec!["/usr/local/bin/gunicorn".into()], Some(".venv")), [".venv/bin/gunicorn"]);
        assert_eq!(with_venv(vec!["python".into()], None), ["python3"]);
    }
}
