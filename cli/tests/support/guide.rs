//! The commands of a guide.

use super::{Home, repository};
use std::path::Path;
use std::process::{Command, Stdio};

/// The shell blocks of a Markdown page, in order.
pub fn commands(page: &str) -> Vec<String> {
    blocks(page, "sh")
}

/// The blocks of one language, in order.
pub fn blocks(page: &str, language: &str) -> Vec<String> {
    let text = std::fs::read_to_string(repository().join(page)).unwrap();
    let mut blocks = Vec::new();
    let mut rest = text.as_str();
    while let Some((_, after)) = rest.split_once(&format!("\n```{language}\n")) {
        let (block, after) = after.split_once("\n```").expect("a block that is not closed");
        blocks.push(block.to_owned());
        rest = after;
    }
    blocks
}

/// A shell in the folder, with the tool and the folder's `bin` in PATH, without FAULTLOOM_ variables.
pub fn shell(home: &Home, arguments: &[&str]) -> Command {
    let tool = Path::new(env!("CARGO_BIN_EXE_faultloom")).parent().unwrap().to_owned();
    let places = [tool, home.file("bin")];
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(places.into_iter().chain(std::env::split_paths(&path))).unwrap();
    let mut shell = Command::new("bash");
    shell.args(arguments).current_dir(&home.path).env("PATH", path).stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("FAULTLOOM_") {
            shell.env_remove(name);
        }
    }
    shell
}
