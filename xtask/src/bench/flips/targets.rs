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

    /// The server and the trace of the paper's campaign.
    pub fn memcached(tool: &Tool, commands: u32) -> Result<Target, String> {
        let trace = tool.path("memcached.trace");
        quiet(&mut command(&built("sei-inputs"), &["memcached", "--commands", &commands.to_string(), &trace]))?;
        let arguments = ["--replay", &trace, "--protocol", "memcached"].map(str::to_owned).to_vec();
        let program = sei::MC.iter().map(|&word| word.to_owned()).collect();
        Ok(Target { name: "memcached", arguments, program })
    }
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
