//! Names a process by its program, if it belongs to no container or unit.
//!
//! For an interpreter the name is what it runs: `python -m app` is `app`, `java -jar x.jar` is `x.jar`. Common names
//! (`main.py`, `server.js`) include their directory if it is known.

use super::arguments::normalize;

/// Where a program that was started without a directory is searched for, after the directory of its executable.
const PROGRAM_DIRECTORIES: [&str; 4] = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin"];

/// The command line of a process, from `/proc` or captured by the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Invocation {
    /// Path of the executable, or its file name alone.
    pub executable: String,
    /// Includes the program itself as first argument.
    pub arguments: Vec<String>,
    /// Working directory, if known; relative names of scripts refer to it.
    pub directory: Option<String>,
}

/// Name and identity of a program that is a service.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Program {
    pub name: String,
    /// Normalized path.
    pub executable: String,
    pub arguments: String,
}

impl Program {
    /// Executable and arguments, which identify the service.
    pub fn identity(&self) -> String {
        format!("{}\0{}", self.executable, self.arguments)
    }
}

impl Invocation {
    /// `arguments` has the format of `/proc/PID/cmdline`: each argument terminated by NUL. Invalid UTF-8 is replaced.
    pub fn new(executable: &str, arguments: &[u8], directory: Option<String>) -> Invocation {
        let executable = executable.strip_suffix(" (deleted)").unwrap_or(executable).to_owned();
        let text = arguments.strip_suffix(b"\0").unwrap_or(arguments);
        let arguments = match text {
            [] => Vec::new(),
            _ => text.split(|byte| *byte == 0).map(|a| String::from_utf8_lossy(a).into_owned()).collect(),
        };
        Invocation { executable, arguments, directory }
    }

    /// The path by which the process was started, if that is a link to its executable with another name: Debian's
    /// `redis-server` is a link to `redis-check-rdb`. `is_executable` returns whether a path leads to the executable.
    /// A link to another version of the same program (`python3`) is not followed, so that the service of a process does
    /// not depend on the link.
    pub fn started_by(&self, is_executable: impl Fn(&str) -> bool) -> Option<String> {
        // a program that writes a title keeps its name at the beginning
        let name = self.arguments.first()?.split(' ').next()?;
        let plain =
            |path: &str| base_name(path).trim_end_matches(|c: char| c.is_ascii_digit() || ".-".contains(c)).to_owned();
        if base_name(name).is_empty() || plain(name) == plain(&self.executable) {
            return None;
        }
        let in_directory = |directory: &str| format!("{}/{name}", directory.trim_end_matches('/'));
        let own_directory = self.executable.rsplit_once('/').map(|(directory, _)| directory);
        let candidates: Vec<String> = match name.split_once('/') {
            Some(("", _)) => vec![name.to_owned()],
            Some(_) => self.directory.iter().map(|directory| in_directory(directory)).collect(),
            None => own_directory.into_iter().chain(PROGRAM_DIRECTORIES).map(in_directory).collect(),
        };
        candidates.into_iter().find(|candidate| is_executable(candidate))
    }

    /// Whether the process is a worker: it replaced its arguments by a title (`nginx: worker process`), or runs a
    /// function of its parent. A worker belongs to the service of its parent, and its arguments are not significant.
    pub fn is_worker(&self) -> bool {
        let base = base_name(&self.executable);
        let first = self.arguments.first().map(String::as_str).unwrap_or_default();
        let title = first.split_once(": ").map_or("", |(before, _)| before);
        let retitled =
            !title.is_empty() && (base.starts_with(title) || title.starts_with(base) || title.contains(base));
        let of_parent = |a: &String| a.contains("multiprocessing.") || a.starts_with("--multiprocessing-fork");
        retitled || self.arguments.iter().skip(1).take(4).any(of_parent)
    }

    pub fn program(&self) -> Program {
        let executable = normalize_path(&self.executable);
        if self.is_worker() {
            return Program { name: base_name(&executable).to_owned(), executable, arguments: String::new() };
        }
        let mut arguments = self.arguments.get(1..).unwrap_or_default().to_vec();
        let main = Main::of(base_name(&self.executable), &arguments);
        if let Main::Script { at } = main
            && let Some(script) = arguments.get_mut(at)
        {
            *script = self.absolute(script);
        }
        let name = match main {
            Main::Itself => base_name(&executable).to_owned(),
            Main::Script { at } => script_name(&arguments[at]),
            Main::Module { at } => arguments[at].clone(),
            Main::Class { at } => class_name(&arguments[at]),
        };
        let name = normalize(&[name]).concat();
        Program { name, executable, arguments: normalize(&arguments).join(" ") }
    }

    fn absolute(&self, script: &str) -> String {
        match &self.directory {
            Some(directory) if !script.starts_with('/') => {
                let script = script.strip_prefix("./").unwrap_or(script);
                format!("{}/{script}", directory.trim_end_matches('/'))
            }
            _ => script.to_owned(),
        }
    }
}

/// Normalizes directory and file name separately: the directory may be temporary, the file name is that of the program.
fn normalize_path(executable: &str) -> String {
    let shown = |part: &str| normalize(&[part.to_owned()]).concat();
    match executable.rsplit_once('/') {
        Some((directory, file)) => format!("{}/{}", shown(directory), shown(file)),
        None => shown(executable),
    }
}

/// Position in the arguments of what an interpreter runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Main {
    /// Not an interpreter, or started without a program.
    Itself,
    Script {
        at: usize,
    },
    Module {
        at: usize,
    },
    Class {
        at: usize,
    },
}

impl Main {
    fn of(executable: &str, arguments: &[String]) -> Main {
        // python3.11, php8.2, ruby3.1
        let plain = executable.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
        let script = |with_value: &[&str]| match first_plain(arguments, with_value) {
            Some(at) => Main::Script { at },
            None => Main::Itself,
        };
        match plain {
            "python" | "pypy" => python(arguments),
            "java" => java(arguments),
            "node" | "nodejs" | "bun" | "deno" => {
                let runs = |at: usize| matches!(arguments[at].as_str(), "run" | "serve") && executable != "node";
                let options =
                    &["-r", "--require", "--import", "--loader", "--experimental-loader", "-C", "--conditions"];
                match first_plain(arguments, options) {
                    Some(at) if runs(at) => first_plain(&arguments[at + 1..], options)
                        .map_or(Main::Itself, |more| Main::Script { at: at + 1 + more }),
                    Some(at) => Main::Script { at },
                    None => Main::Itself,
                }
            }
            "ruby" | "jruby" => script(&["-I", "-r", "-C"]),
            "perl" => script(&["-I"]),
            "php" => script(&["-d", "-c", "-S", "-t"]),
            "lua" | "luajit" | "Rscript" => script(&["-l"]),
            "dotnet" => script(&["--additionalprobingpath", "--depsfile", "--runtimeconfig", "--fx-version"]),
            "sh" | "bash" | "dash" | "zsh" | "ash" | "ksh" if !arguments.iter().any(|a| is_command_option(a)) => {
                script(&["-o", "-O", "+o", "--rcfile", "--init-file"])
            }
            _ => Main::Itself,
        }
    }
}

/// `-c`, also combined with other flags as in `-ec`.
fn is_command_option(argument: &str) -> bool {
    argument.starts_with('-') && !argument.starts_with("--") && argument.ends_with('c')
}

/// Position of the first argument that is neither an option nor the value of one; none if code was passed instead of a
/// file.
fn first_plain(arguments: &[String], with_value: &[&str]) -> Option<usize> {
    let mut at = 0;
    while let Some(argument) = arguments.get(at) {
        match argument.as_str() {
            "-e" | "--eval" | "-p" | "--print" | "-r" if !with_value.contains(&argument.as_str()) => return None,
            "--" => return (at + 1 < arguments.len()).then_some(at + 1),
            option if with_value.contains(&option) => at += 2,
            option if option.starts_with(['-', '+']) && option.len() > 1 => at += 1,
            _ => return Some(at),
        }
    }
    None
}

fn python(arguments: &[String]) -> Main {
    let mut at = 0;
    while let Some(argument) = arguments.get(at) {
        match argument.as_str() {
            "-m" if at + 1 < arguments.len() => return Main::Module { at: at + 1 },
            "-c" | "-" => return Main::Itself,
            "-W" | "-X" => at += 2,
            // flags may be combined: -um
            flags if flags.starts_with('-') && !flags.starts_with("--") && flags.ends_with('m') => {
                return if at + 1 < arguments.len() { Main::Module { at: at + 1 } } else { Main::Itself };
            }
            option if option.starts_with('-') => at += 1,
            script => return python_script(arguments, at, script),
        }
    }
    Main::Itself
}

/// For servers that run an application named as `module:object`, the application is the name.
fn python_script(arguments: &[String], at: usize, script: &str) -> Main {
    const SERVERS: [&str; 7] = ["gunicorn", "uvicorn", "hypercorn", "daphne", "waitress-serve", "granian", "uwsgi"];
    if SERVERS.contains(&base_name(script)) {
        let is_application = |argument: &String| {
            argument.split_once(':').is_some_and(|(module, object)| is_dotted(module) && is_dotted(object))
        };
        if let Some(more) = arguments[at + 1..].iter().position(is_application) {
            return Main::Module { at: at + 1 + more };
        }
    }
    Main::Script { at }
}

fn is_dotted(name: &str) -> bool {
    name.starts_with(|c: char| c.is_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_alphanumeric() || "._".contains(c))
}

fn java(arguments: &[String]) -> Main {
    const WITH_VALUE: [&str; 12] = [
        "-cp",
        "-classpath",
        "--class-path",
        "-p",
        "--module-path",
        "--add-modules",
        "--add-opens",
        "--add-exports",
        "--add-reads",
        "--upgrade-module-path",
        "--limit-modules",
        "--patch-module",
    ];
    let mut at = 0;
    while let Some(argument) = arguments.get(at) {
        match argument.as_str() {
            "-jar" if at + 1 < arguments.len() => return Main::Script { at: at + 1 },
            "-m" | "--module" if at + 1 < arguments.len() => return Main::Class { at: at + 1 },
            option if WITH_VALUE.contains(&option) => at += 2,
            option if option.starts_with(['-', '@']) => at += 1,
            _ => return Main::Class { at },
        }
    }
    Main::Itself
}

pub fn base_name(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().unwrap_or(path)
}

fn script_name(script: &str) -> String {
    const COMMON_NAMES: [&str; 14] = [
        "main",
        "app",
        "application",
        "server",
        "index",
        "manage",
        "__main__",
        "run",
        "start",
        "wsgi",
        "asgi",
        "worker",
        "cli",
        "service",
    ];
    let base = base_name(script);
    let stem = base.rsplit_once('.').map_or(base, |(stem, _)| stem);
    let mut directories =
        script.rsplit('/').skip(1).filter(|f| !matches!(*f, "" | "." | "src" | "dist" | "build" | "bin"));
    match directories.next() {
        Some(directory) if COMMON_NAMES.contains(&stem) => format!("{directory}/{base}"),
        _ => base.to_owned(),
    }
}

/// `com.example.cart.Main` is `cart.Main`, `com.example.Catalogue` is `Catalogue`.
fn class_name(class: &str) -> String {
    const COMMON_NAMES: [&str; 6] = ["Main", "App", "Application", "Server", "Launcher", "Start"];
    let class = class.rsplit('/').next().unwrap_or(class);
    let mut parts = class.rsplit('.');
    let last = parts.next().unwrap_or(class);
    match parts.next() {
        Some(package) if COMMON_NAMES.contains(&last) => format!("{package}.{last}"),
        _ => last.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn invocation(line: &str) -> Invocation {
        let arguments = line.split(' ').collect::<Vec<_>>().join("\0");
        let executable = line.split(' ').next().unwrap();
        Invocation::new(executable, arguments.as_bytes(), None)
    }

    #[test]
    fn interpreters_are_named_by_what_they_run() {
        let table = [
            ("/usr/bin/python3.11 -m app", "app"),
            ("/usr/bin/python3 -u -W ignore -m shop.recommendation --port 7005", "shop.recommendation"),
            ("/usr/bin/python3 -um app", "app"),
            ("/usr/bin/python3 /srv/cart/main.py", "cart/main.py"),
            ("/usr/bin/python3 billing.py", "billing.py"),
            ("/usr/bin/python3 /usr/bin/gunicorn -w 4 shop.web:app", "shop.web:app"),
            ("/usr/bin/python3 /usr/bin/gunicorn -c conf.py", "gunicorn"),
            ("/usr/bin/python3 -c code", "python3"),
            ("/usr/bin/java -Xmx64m -jar /opt/x.jar --port 80", "x.jar"),
            ("/usr/bin/java -cp target/shop.jar -Dx=y shop.ads.Main", "ads.Main"),
            ("/usr/bin/java -cp a:b org.example.Catalogue 7", "Catalogue"),
            ("/usr/bin/java -p mods -m shop/org.shop.Server", "shop.Server"),
            ("/usr/bin/node server.js", "server.js"),
            ("/usr/bin/node --require ./tracing.js --inspect /srv/cart/dist/server.js", "cart/server.js"),
            ("/usr/bin/node -e code", "node"),
            ("/usr/bin/bun run index.ts", "index.ts"),
            ("/usr/bin/ruby -I lib bin/puma", "puma"),
            ("/usr/bin/dotnet Shop.dll", "Shop.dll"),
            ("/bin/bash -eu /srv/sync.sh", "sync.sh"),
            ("/bin/sh -ec sleep", "sh"),
            ("/usr/sbin/nginx -g daemon", "nginx"),
            ("/usr/bin/redis-server", "redis-server"),
            ("/opt/app/shop-worker-2 --x", "shop-worker-#"),
            ("/tmp/cart --port 80", "cart"),
            ("/tmp/build-1234/cart", "cart"),
        ];
        for (line, expected) in table {
            assert_eq!(invocation(line).program().name, expected, "{line}");
        }
    }

    #[test]
    fn equal_scripts_in_different_directories_are_two_services() {
        let at = |directory: &str| {
            Invocation { directory: Some(directory.into()), ..invocation("/usr/bin/node server.js") }.program()
        };
        assert_eq!(at("/srv/cart").name, "cart/server.js");
        assert_ne!(at("/srv/cart").identity(), at("/srv/ads").identity());
        assert_eq!(at("/srv/cart").identity(), at("/srv/cart/").identity());
    }

    #[test]
    fn instances_of_one_service_are_equal() {
        let one = invocation("/usr/bin/python3 -m app --port 7001 --id 9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d").program();
        let two = invocation("/usr/bin/python3 -m app --port 7002 --id 0b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6e").program();
        assert_eq!(one, two);
        assert_ne!(one.identity(), invocation("/usr/bin/python3 -m other --port 7001").program().identity());
    }

    #[test]
    fn workers_with_titles_belong_to_their_program() {
        let nginx = |title: &str| Invocation::new("/usr/sbin/nginx", title.as_bytes(), None);
        let (master, worker) =
            (nginx("nginx: master process /usr/sbin/nginx -g daemon off;"), nginx("nginx: worker process\0\0"));
        assert!(master.is_worker() && worker.is_worker());
        assert_eq!(master.program(), worker.program());
        assert!(invocation("/usr/bin/python3 -c from multiprocessing.spawn import spawn_main;").is_worker());
        assert!(!invocation("/usr/sbin/nginx -g daemon").is_worker());
    }

    #[test]
    fn deleted_executables_keep_their_name() {
        assert_eq!(Invocation::new("/srv/a b\nc (deleted)", b"", None).executable, "/srv/a b\nc");
    }

    proptest! {
        #[test]
        fn any_invocation_has_a_program(executable: String, arguments in prop::collection::vec(any::<u8>(), 0..200), directory: Option<String>) {
            let invocation = Invocation::new(&executable, &arguments, directory);
            prop_assert!(invocation.program().name.chars().count() <= 300);
        }

        #[test]
        fn any_command_line_of_an_interpreter_has_a_program(which in 0..5usize, arguments in prop::collection::vec("(-[a-z]{1,2}|--[a-z]+|[a-z./:]{0,8}|-m|-jar|-c|run)", 0..6)) {
            let executable = ["python3", "java", "node", "bun", "sh"][which];
            let line = [vec![executable.to_owned()], arguments].concat().join("\0");
            let _ = Invocation::new(executable, line.as_bytes(), None).program();
        }
    }
}
