//! Whether an undisturbed run can be the reference that disturbed runs are compared with.
//!
//! A program that fails at once, because a file is missing for example, repeats that failure exactly: every flip would
//! have "no effect", and the campaign would pass without a statement about the program.

use crate::judge::Rules;
use bit_flips::engine_messages::{Profile, Program};
use model::Failure;
use std::path::{Path, PathBuf};

/// How much of a line of standard error is quoted.
const LINE_MAX: usize = 200;

/// Refuses a run without output, or with another exit status than the expected one.
pub fn check(program: &Program, rules: &Rules, profile: &Profile) -> Result<(), Failure> {
    let status = profile.exit_status;
    let exits = format!("it exits with status {status} and {}", written(&profile.stderr));
    if !has_output(program, profile) {
        return Err(Failure::environment("the undisturbed program writes no output to compare with")
            .why(format!("every flip would count as \"no effect\"; {exits}"))
            .next(advice(program).unwrap_or_else(|| {
                "run it by hand with the same arguments; pass what it reads by --stdin, --file and --env".to_owned()
            })));
    }
    if status != rules.expect_exit {
        let usual = match &program.replay {
            Some(_) => {
                "run the server by hand with the same arguments; it must run until its clients are done".to_owned()
            }
            None => {
                format!("run it by hand with the same arguments; if that is its usual result: --expect-exit {status}")
            }
        };
        return Err(Failure::environment("the undisturbed program fails")
            .why(format!("{exits}; expected was {}", rules.expect_exit))
            .next(advice(program).map_or(usual.clone(), |file| format!("{file}; otherwise {usual}"))));
    }
    Ok(())
}

/// Copies of `--file` that the program leaves unchanged are no output.
fn has_output(program: &Program, profile: &Profile) -> bool {
    let is_input = |name: &str, bytes: &[u8]| {
        let named = |file: &&PathBuf| file.file_name().is_some_and(|own| own == name);
        program.files.iter().rev().find(named).is_some_and(|file| std::fs::read(file).is_ok_and(|own| own == bytes))
    };
    profile.golden.streams.iter().any(|stream| !stream.bytes.is_empty() && !is_input(&stream.name, &stream.bytes))
}

fn written(stderr: &str) -> String {
    let mut lines = stderr.lines().map(str::trim).filter(|line| !line.is_empty());
    let quoted = |line: &str| line.chars().take(LINE_MAX).collect::<String>();
    match (lines.next(), lines.next_back()) {
        (None, _) => "writes nothing to standard error".to_owned(),
        (Some(first), None) => format!("writes to standard error: {}", quoted(first)),
        // the reason is in the last line of a trace of the stack
        (Some(first), Some(last)) => format!("writes to standard error: {} … {}", quoted(first), quoted(last)),
    }
}

fn advice(program: &Program) -> Option<String> {
    let missing = missing_files(program);
    let options: Vec<String> = missing.iter().map(|file| format!("--file {}", file.display())).collect();
    let first = missing.first()?;
    let renamed = match first.file_name() {
        Some(name) if first != Path::new(name) => format!(", and {} as the argument", Path::new(name).display()),
        _ => String::new(),
    };
    Some(format!("copy it into the program's working directory: {}{renamed}", options.join(" ")))
}

/// Files that arguments name relative to the current directory. The program does not find them: it runs in a directory
/// of its own, with copies of its `files` alone.
pub fn missing_files(program: &Program) -> Vec<PathBuf> {
    let mut missing: Vec<PathBuf> = Vec::new();
    for argument in program.argv.iter().skip(1) {
        // --option=FILE as well
        let parts = [Some(argument.as_str()), argument.split_once('=').map(|(_, value)| value)];
        for path in parts.into_iter().flatten().map(Path::new) {
            let is_copied =
                program.files.iter().any(|file| file.file_name().is_some_and(|name| path == Path::new(name)));
            if path.is_relative() && !is_copied && path.is_file() && !missing.iter().any(|other| other == path) {
                missing.push(path.to_owned());
            }
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{output, program};

    fn refused(program: &Program, profile: &Profile, expect_exit: i32) -> Option<String> {
        check(program, &Rules { expect_exit, ..Rules::default() }, profile).err().map(|failure| {
            format!("{} | {} | {}", failure.what, failure.why.unwrap_or_default(), failure.next.unwrap_or_default())
        })
    }

    fn profile(bytes: &[u8], exit_status: i32, stderr: &str) -> Profile {
        Profile { golden: output(bytes), exit_status, stderr: stderr.to_owned(), ..Profile::default() }
    }

    #[test]
    fn a_run_without_output_is_refused_whatever_its_status() {
        for status in [0, 1] {
            let refusal = refused(&program(), &profile(b"", status, "cat: x: No such file\n"), status).unwrap();
            assert!(refusal.contains("no output") && refusal.contains("cat: x: No such file"), "{refusal}");
            assert!(refusal.contains(&format!("status {status}")), "{refusal}");
        }
    }

    #[test]
    fn an_unchanged_input_file_is_no_output_and_a_changed_one_is() {
        let path = std::env::temp_dir().join(format!("faultloom-reference-{}", std::process::id()));
        std::fs::write(&path, "input").unwrap();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let program = Program { files: vec![path.clone()], ..program() };
        let run = |bytes: &[u8]| {
            let mut profile = profile(b"", 0, "");
            profile.golden.streams.push(model::flip::Stream { name: name.clone(), bytes: bytes.to_vec() });
            refused(&program, &profile, 0)
        };
        assert!(run(b"input").is_some_and(|refusal| refusal.contains("no output")));
        assert_eq!(run(b"output"), None);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_failure_is_refused_unless_its_status_is_expected() {
        let trace = "Traceback (most recent call last):\n  File \"p.py\"\nModuleNotFoundError: No module named 'x'\n";
        let refusal = refused(&program(), &profile(b"partial\n", 3, trace), 0).unwrap();
        for words in ["status 3", "Traceback", "No module named 'x'", "--expect-exit 3"] {
            assert!(refusal.contains(words), "{words}: {refusal}");
        }
        assert_eq!(refused(&program(), &profile(b"a\n", 3, ""), 3), None);
        assert!(refused(&program(), &profile(b"a\n", 0, ""), 3).is_some_and(|refusal| refusal.contains("status 0")));
    }

    #[test]
    fn arguments_that_name_files_here_are_missing_there_unless_they_are_copied() {
        // tests run in the crate's folder
        let mut program = program();
        program
            .argv
            .extend(["Cargo.toml", "--in=src/lib.rs", "src/lib.rs", "/bin/true", "-x", "no-such"].map(str::to_owned));
        assert_eq!(missing_files(&program), [Path::new("Cargo.toml"), Path::new("src/lib.rs")]);
        let refusal = refused(&program, &profile(b"", 1, ""), 0).unwrap();
        assert!(refusal.contains("--file Cargo.toml --file src/lib.rs"), "{refusal}");
        program.files = vec![std::path::absolute("Cargo.toml").unwrap()];
        assert_eq!(missing_files(&program), [Path::new("src/lib.rs")]);
        let refusal = refused(&program, &profile(b"", 1, ""), 0).unwrap();
        assert!(refusal.contains("--file src/lib.rs, and lib.rs as the argument"), "{refusal}");
    }
}
