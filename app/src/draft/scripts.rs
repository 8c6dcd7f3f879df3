//! A folder of start scripts as a target: one service per script.
//!
//! The service's name is the script's without `start-` or `run-`. Language and port are found in the script's text; it
//! is never run.

use super::language::{self, mark_support, program_sdk, support};
use super::local_command::words;
use super::{Command, Draft, Service, folder_name, likely, port_text, stated};
use model::Failure;
use std::path::Path;

const PREFIXES: [&str; 6] = ["start-", "start_", "run-", "run_", "serve-", "serve_"];
const NOT_SERVICES: [&str; 22] = [
    "build",
    "test",
    "install",
    "setup",
    "deploy",
    "stop",
    "clean",
    "lint",
    "all",
    "start",
    "format",
    "fmt",
    "check",
    "migrate",
    "release",
    "publish",
    "push",
    "bootstrap",
    "update",
    "download",
    "package",
    "seed",
];
/// First words of names of scripts that generate code.
const GENERATE: [&str; 5] = ["generate", "regenerate", "gen", "codegen", "protoc"];
/// Programs that write code and end.
const GENERATORS: [&str; 12] = [
    "protoc",
    "buf",
    "openapi-generator",
    "openapi-generator-cli",
    "swagger-codegen",
    "graphql-codegen",
    "sqlc",
    "thrift",
    "flatc",
    "mockgen",
    "stringer",
    "grpc_tools.protoc",
];

/// `from_target`: the path of the scripts' folder, relative to the target file's folder.
pub fn draft(folder: &Path, shown: &str, from_target: &str) -> Result<Draft, Failure> {
    let mut draft =
        Draft::new(shown, folder_name(folder.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))));
    let entries = std::fs::read_dir(folder).map_err(|error| {
        Failure::request(format!("cannot read {shown}")).why(error.to_string()).next("check the path")
    })?;
    let mut names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    for file in names {
        let Ok(text) = std::fs::read_to_string(folder.join(&file)) else { continue };
        if !text.starts_with("#!") && !file.ends_with(".sh") {
            continue;
        }
        let stem = file.split('.').next().unwrap_or(&file);
        let without_prefix = PREFIXES.iter().find_map(|prefix| stem.strip_prefix(prefix));
        let name = without_prefix.unwrap_or(stem);
        let first = name.split(['-', '_']).next().unwrap_or(name);
        if NOT_SERVICES.contains(&name) || GENERATE.contains(&first) {
            draft.notes.push(format!("{file}: its name is not that of a service"));
            continue;
        }
        if let Some(generator) = generator(&text) {
            draft.notes.push(format!("{file}: it generates code with {generator}, so it is not a service"));
            continue;
        }
        draft.services.push(script(name, &file, &text, folder, from_target, &mut draft.notes));
    }
    if draft.services.is_empty() {
        return Err(Failure::request(format!("{shown} has no compose file, no Procfile and no start scripts"))
            .why("start scripts end with .sh or begin with #!, such as start-api.sh"));
    }
    Ok(draft)
}

/// The program by which a script generates code.
fn generator(text: &str) -> Option<&'static str> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let commands = lines.flat_map(|line| line.split([';', '|']).flat_map(|part| part.split("&&")));
    for command in commands {
        let words: Vec<String> = words(command.trim()).into_iter().filter(|word| word != "exec").collect();
        let plain = |word: &String| {
            let word = word.trim_start_matches(['$', '{']).trim_end_matches('}');
            word.rsplit('/').next().unwrap_or(word).to_owned()
        };
        let words: Vec<String> = words.iter().map(plain).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let program = match words.as_slice() {
            ["go", "generate", ..] => return Some("go generate"),
            [python, "-m", module, ..] if python.starts_with("python") => module,
            ["npx", program, ..] | [program, ..] => program,
            [] => continue,
        };
        if let Some(found) = GENERATORS.iter().find(|own| *own == program) {
            return Some(found);
        }
    }
    None
}

fn script(name: &str, file: &str, text: &str, folder: &Path, from_target: &str, notes: &mut Vec<String>) -> Service {
    let lines: Vec<Vec<String>> =
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).map(words).collect();
    // the last program is the one that keeps running
    let sdk = lines.iter().rev().find_map(|line| program_sdk(line));
    let sdk = sdk.unwrap_or_else(|| language::none(format!("{file} starts no program in a language with an SDK")));
    let mut service = Service::new(name, sdk);
    let program = |line: &Vec<String>| line.iter().find(|word| *word != "exec").and_then(|program| support(program));
    let support = lines.iter().rev().find_map(program);
    if let Some((name, _)) = support {
        mark_support(&mut service, name);
    }
    let variable = lines.iter().flatten().find_map(|word| {
        let (name, value) = word.split_once('=')?;
        let default = value.strip_prefix("${").and_then(|value| value.split_once(":-")).map(|(_, rest)| rest);
        port_text::in_variable(name, default.map_or(value, |default| default.trim_end_matches('}')))
    });
    let flag = lines.iter().rev().find_map(|line| port_text::in_command(line));
    let port = flag.or(variable).or(support.map(|(_, port)| port));
    if let Some(port) = port {
        service.listens.push(likely(format!("127.0.0.1:{port}"), format!("the port in {file}")));
    }
    let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
    if last.trim_end().ends_with('&') || text.contains("nohup ") {
        notes.push(format!("{file}: starts its program in the background; remove the &, or `up` considers it ended"));
    }
    use std::os::unix::fs::PermissionsExt;
    let executable = folder.join(file).metadata().is_ok_and(|data| data.permissions().mode() & 0o111 != 0);
    let path = if from_target.is_empty() { format!("./{file}") } else { format!("./{from_target}/{file}") };
    let command = match executable && text.starts_with("#!") {
        true => vec![path],
        false => vec![interpreter(text).to_owned(), path],
    };
    service.command = Some(stated(Command::Words(command), "the script itself"));
    service
}

/// The last word of the first line, `#!/usr/bin/env bash`.
fn interpreter(text: &str) -> &str {
    let first = text.lines().next().and_then(|line| line.strip_prefix("#!")).unwrap_or("sh");
    let word = first.split_whitespace().find(|word| !word.ends_with("/env") && !word.starts_with('-')).unwrap_or("sh");
    word.rsplit('/').next().unwrap_or(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_that_only_generate_code_are_recognized() {
        for text in [
            "#!/bin/sh\nset -eu\n$protoc -I proto --go_out=go bookstore.proto\n",
            "exec buf generate\n",
            "cd api && go generate ./...\n",
            "python3 -m grpc_tools.protoc -I . a.proto\n",
        ] {
            assert!(generator(text).is_some(), "{text}");
        }
        for text in
            ["# protoc makes the code\nexec node server.js\n", "exec ./bin/api --plugin protoc\n", "go run ./cmd/api\n"]
        {
            assert_eq!(generator(text), None, "{text}");
        }
    }
}
