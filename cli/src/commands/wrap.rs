//! `faultloom go …` and `faultloom python …`: the language's own tool with the SDK in it. This process is replaced by
//! it.

use app::sdk_paths;
use model::{Exit, Failure};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

pub fn go(arguments: &[String]) -> Result<Exit, Failure> {
    let wrapper = wrapper()?;
    replace(Command::new(&wrapper).args(arguments), "faultloom-go")
}

/// The Go wrapper, built once per version of its sources into the user's cache.
fn wrapper() -> Result<PathBuf, Failure> {
    let source = sdk_paths::folder("go")?;
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|h| PathBuf::from(h).join(".cache")))
        .unwrap_or_else(std::env::temp_dir);
    let binary = cache.join("faultloom").join(wrapper_name(&source));
    // `go build` detects whether anything changed, and is quick if not
    let status =
        Command::new("go").args(["build", "-o"]).arg(&binary).arg("./cmd/faultloom-go").current_dir(&source).status();
    match status {
        Ok(status) if status.success() => Ok(binary),
        Ok(_) => Err(Failure::environment("the Go wrapper cannot be built")
            .why("the compiler's output is above")
            .next("`go version` should be 1.24 or newer")),
        Err(e) => Err(Failure::environment("`go` cannot be started")
            .why(e.to_string())
            .next("install the Go toolchain, or import faultloom.dev/go/auto where you build")),
    }
}

/// One name per path of the sources and version of the tool, so that two checkouts do not overwrite each other's
/// binary.
fn wrapper_name(source: &Path) -> String {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new(); // without keys: the same in every process
    (source, env!("CARGO_PKG_VERSION")).hash(&mut hasher);
    format!("faultloom-go-{:016x}", hasher.finish())
}

pub fn python(arguments: &[String]) -> Result<Exit, Failure> {
    let folder = sdk_paths::python()?;
    let path = match std::env::var_os("PYTHONPATH") {
        Some(old) if !old.is_empty() => {
            std::env::join_paths(std::iter::once(folder.clone()).chain(std::env::split_paths(&old)))
                .unwrap_or_else(|_| folder.clone().into())
        }
        _ => folder.clone().into(),
    };
    let python = std::env::var_os("PYTHON").unwrap_or_else(|| "python3".into());
    replace(Command::new(python).args(arguments).env("PYTHONPATH", path), "python3")
}

fn replace(command: &mut Command, name: &str) -> Result<Exit, Failure> {
    let error = command.exec();
    Err(Failure::environment(format!("{name} cannot be started")).why(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_checkout_has_a_wrapper_of_its_own() {
        let name = |path: &str| wrapper_name(Path::new(path));
        assert_eq!(name("/a/sdk/go"), name("/a/sdk/go"));
        assert_ne!(name("/a/sdk/go"), name("/b/sdk/go"));
    }
}
