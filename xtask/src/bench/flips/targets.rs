//! The programs under test, and the tool.

use crate::papers::sei;
use crate::shell::{built, command, quiet, root, words};
use model::campaign::Variant;
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

/// A program and its input.
pub struct Target {
    pub name: &'static str,
    arguments: Vec<String>,
    program: Vec<String>,
}

impl Target {
    /// Sums up its input's lines: `break/bits/tests/programs/sums.c`.
    pub fn sums(tool: &Tool, lines: u32) -> Result<Target, String> {
        let (program, input) = (tool.path("sums"), tool.path("lines"));
        quiet(&mut command("cc", &["-O1", "-g", "-o", &program, "break/bits/tests/programs/sums.c"]))?;
        let lines: String = (0..lines).map(|n| format!("line number {n} of the input\n")).collect();
        std::fs::write(&input, lines).map_err(|e| format!("{input}: {e}"))?;
        Ok(Target { name: "sums", arguments: vec!["--stdin".to_owned(), input], program: vec![program] })
    }

    /// The programs that users try first, as Debian builds them.
    pub fn known(tool: &Tool) -> Result<Vec<Target>, String> {
        let written = |name: &str, text: &str| {
            let path = tool.path(name);
            std::fs::write(&path, text).map_err(|e| format!("{path}: {e}")).map(|()| path)
        };
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        let lua = written("table.lua", LUA)?;
        let python = written("table.py", PYTHON)?;
        let json = written("table.json", JSON)?;
        let trace = written("redis.trace", &redis_trace())?;
        Ok(vec![
            Target { name: "lua5.4", arguments: Vec::new(), program: words(&["lua5.4", &lua]) },
            Target {
                name: "python3",
                arguments: Vec::new(),
                program: words(&["/usr/bin/python3", "-I", "-S", &python]),
            },
            Target {
                name: "jq",
                arguments: words(&["--stdin", &json]),
                program: words(&["jq", ".items | map(.size) | add"]),
            },
            Target {
                name: "redis-server",
                arguments: words(&["--replay", &trace]),
                program: words(&["redis-server", "--port", "6379", "--save", "", "--dir", "."]),
            },
        ])
    }

    /// The server and the trace of the paper's campaign.
    pub fn memcached(tool: &Tool, commands: u32) -> Result<Target, String> {
        let trace = tool.path("memcached.trace");
        quiet(&mut command(&built("sei-inputs"), &["memcached", "--commands", &commands.to_string(), &trace]))?;
        let arguments = ["--replay", &trace, "--protocol", "memcached"].map(str::to_owned).to_vec();
        let program = sei::MC.iter().map(|&word| word.to_owned()).collect();
        Ok(Target { name: "memcached", arguments, program })
    }
}

const LUA: &str = r#"local sizes = {}
for i = 1, 200 do sizes["key" .. i] = i * i end
local sum = 0
for key, size in pairs(sizes) do sum = sum + size end
print("sum", sum)
"#;

const PYTHON: &str = r#"sizes = {f"key{i}": i * i for i in range(200)}
print("keys", len(set(sizes)))
print("sum", sum(sizes.values()))
"#;

const JSON: &str = r#"{"items": [{"name": "a", "size": 3}, {"name": "b", "size": 4}, {"name": "c", "size": 5}]}"#;

/// Inline commands of one client.
fn redis_trace() -> String {
    let send = |command: String| format!("send 0 {}\n{command}\r\n\n", command.len() + 2);
    let commands: String = (0..30)
        .flat_map(|n| [format!("SET key{n} value{n}"), format!("GET key{}", n / 2), "INCR count".to_owned()])
        .map(send)
        .collect();
    format!("replay 1\nconnect 0 tcp 6379\n{commands}close 0\n")
}

/// The built tool, with an empty store.
pub struct Tool {
    work: PathBuf,
}

impl Tool {
    pub fn new() -> Result<Tool, String> {
        let work = root().join("out/bench/flips");
        let _ = std::fs::remove_dir_all(&work);
        std::fs::create_dir_all(&work).map_err(|e| format!("{}: {e}", work.display()))?;
        Ok(Tool { work })
    }

    pub fn path(&self, name: &str) -> String {
        self.work.join(name).display().to_string()
    }

    fn faultloom(&self, arguments: &[&str]) -> Command {
        let mut call = command(&built("faultloom"), &["--home", &self.path("home"), "--json"]);
        call.args(arguments);
        call
    }

    /// Runs the tool and returns its JSON output. Findings (exit code 1) are not an error.
    pub fn query(&self, arguments: &[&str]) -> Result<Value, String> {
        let mut call = self.faultloom(arguments);
        let output = call.output().map_err(|e| format!("{}: {e}", words(&call)))?;
        if !matches!(output.status.code(), Some(0 | 1)) {
            return Err(format!("{} ({})\n{}", words(&call), output.status, String::from_utf8_lossy(&output.stderr)));
        }
        serde_json::from_slice(&output.stdout).map_err(|e| format!("{}: {e}", words(&call)))
    }

    /// Runs a campaign of the paper's seven types. Returns the seconds of the whole command, and the result.
    pub fn campaign(&self, target: &Target, count: u32, seed: u64, more: &[&str]) -> Result<(f64, Variant), String> {
        let begin = Instant::now();
        let result = self.flip(target, count, seed, more)?;
        let variant = serde_json::from_value(result["campaign"]["variants"][0].clone());
        Ok((begin.elapsed().as_secs_f64(), variant.map_err(|e| format!("{}: {e}", target.name))?))
    }

    pub fn flip(&self, target: &Target, count: u32, seed: u64, more: &[&str]) -> Result<Value, String> {
        let (count, seed) = (count.to_string(), seed.to_string());
        let mut arguments = vec!["flip", "--count", &count, "--seed", &seed];
        arguments.extend(more);
        arguments.extend(target.arguments.iter().map(String::as_str));
        arguments.push("--");
        arguments.extend(target.program.iter().map(String::as_str));
        self.query(&arguments)
    }
}
