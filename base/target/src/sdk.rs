//! Installs an SDK in a service that `up` starts: by an environment variable, without changing the service's command.
//!
//! | `sdk:` | variable | value, put before an existing one |
//! |---|---|---|
//! | `go` | | built in by the wrapper |
//! | `python` | `PYTHONPATH` | the folder with `sitecustomize.py` |
//! | `java` | `JAVA_TOOL_OPTIONS` | `-javaagent:` and the agent's jar |
//! | `node` | `NODE_OPTIONS` | `--require` and the SDK's `register.js` |
//!
//! A value that already names the SDK is not changed, so that no agent is loaded twice.

use crate::file::target::{Service, Target};
use crate::supervise::event::Event;
use model::Failure;
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sdk {
    Go,
    Java,
    Python,
    Node,
    None,
}

/// The SDKs installed on this machine. A service whose SDK is `None` starts without it, with a warning.
#[derive(Clone, Debug, Default)]
pub struct SdkPaths {
    /// The folder with `sitecustomize.py`.
    pub python: Option<PathBuf>,
    /// The agent's jar.
    pub java: Option<PathBuf>,
    /// `register.js`.
    pub node: Option<PathBuf>,
}

impl Sdk {
    pub const NAMES: [&'static str; 5] = ["go", "java", "python", "node", "none"];

    pub fn parse(name: &str) -> Option<Sdk> {
        let all = [Sdk::Go, Sdk::Java, Sdk::Python, Sdk::Node, Sdk::None];
        all.into_iter().zip(Sdk::NAMES).find(|(_, own)| *own == name).map(|(sdk, _)| sdk)
    }

    pub fn name(self) -> &'static str {
        Sdk::NAMES[self as usize]
    }

    /// The variable that loads the SDK, the value to put first, and the separator to an existing value.
    pub fn variable(self, path: &Path) -> Option<(&'static str, OsString, &'static str)> {
        match self {
            Sdk::Python => Some(("PYTHONPATH", path.into(), ":")),
            Sdk::Java => Some(("JAVA_TOOL_OPTIONS", option("-javaagent:", path), " ")),
            Sdk::Node => Some(("NODE_OPTIONS", option("--require ", path), " ")),
            Sdk::Go | Sdk::None => None,
        }
    }
}

/// The Java launcher and Node.js both split at spaces and both support double quotes.
fn option(flag: &str, path: &Path) -> OsString {
    let has_spaces = path.to_string_lossy().contains(char::is_whitespace);
    let quote = if has_spaces { "\"" } else { "" };
    [OsStr::new(flag), OsStr::new(quote), path.as_os_str(), OsStr::new(quote)].into_iter().collect()
}

impl SdkPaths {
    fn of(&self, sdk: Sdk) -> Option<&Path> {
        match sdk {
            Sdk::Python => self.python.as_deref(),
            Sdk::Java => self.java.as_deref(),
            Sdk::Node => self.node.as_deref(),
            Sdk::Go | Sdk::None => None,
        }
    }

    /// Checks, before anything is started, that the SDK of each service is installed.
    pub(crate) fn check(&self, target: &Target, on_event: &dyn Fn(&Event)) -> Result<(), Failure> {
        for (sdk, name, file, build) in [
            (Sdk::Python, "Python", "sitecustomize.py", ""),
            (Sdk::Java, "Java", "", "mvn -q -f sdk/java/pom.xml package -DskipTests"),
            (Sdk::Node, "Node.js", "", "npm --prefix sdk/typescript ci && npm --prefix sdk/typescript run build"),
        ] {
            let Some(service) = target.services().iter().find(|service| service.sdk == sdk) else { continue };
            let Some(path) = self.of(sdk) else {
                on_event(&Event::Warning(format!(
                    "service '{}' starts without the {name} SDK: its path is not given",
                    service.name
                )));
                continue;
            };
            if path.join(file).is_file() || (file.is_empty() && path.is_file()) {
                continue;
            }
            let failure = Failure::environment(format!("no {name} SDK in {}", path.display()));
            return Err(match build {
                "" => failure
                    .why(format!(
                        "service '{}' needs it (sdk: {}), but {file} does not exist",
                        service.name,
                        sdk.name()
                    ))
                    .next(format!("give the folder with {file}, or write sdk: none")),
                build => failure
                    .why(format!("service '{}' needs it (sdk: {}), but it is not built", service.name, sdk.name()))
                    .next(format!("build it ({build}), or write sdk: none")),
            });
        }
        Ok(())
    }

    /// The variable to set for the service. An existing value, the service's or our own, is extended.
    pub(crate) fn variable(&self, service: &Service) -> Option<(&'static str, OsString)> {
        let (name, first, separator) = service.sdk.variable(self.of(service.sdk)?)?;
        let before = service.environment.get(name).map(OsString::from).or_else(|| std::env::var_os(name));
        Some((name, extended(first, separator, before)))
    }
}

fn extended(mut first: OsString, separator: &str, before: Option<OsString>) -> OsString {
    match before.filter(|before| !before.is_empty()) {
        Some(before) if before.to_string_lossy().contains(&*first.to_string_lossy()) => before,
        Some(before) => {
            first.push(separator);
            first.push(before);
            first
        }
        None => first,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_their_variants() {
        for name in Sdk::NAMES {
            assert_eq!(Sdk::parse(name).unwrap().name(), name);
        }
        assert_eq!(Sdk::parse("ruby"), None);
    }

    #[test]
    fn existing_values_are_kept_and_no_agent_is_added_twice() {
        let java = |before: Option<&str>| {
            let (_, first, separator) = Sdk::Java.variable(Path::new("/sdk/a.jar")).unwrap();
            extended(first, separator, before.map(OsString::from)).into_string().unwrap()
        };
        assert_eq!(java(None), "-javaagent:/sdk/a.jar");
        assert_eq!(java(Some("")), "-javaagent:/sdk/a.jar");
        assert_eq!(java(Some("-Xmx64m -javaagent:/o.jar")), "-javaagent:/sdk/a.jar -Xmx64m -javaagent:/o.jar");
        assert_eq!(java(Some("-Xmx64m -javaagent:/sdk/a.jar")), "-Xmx64m -javaagent:/sdk/a.jar");
        let (name, value, _) = Sdk::Node.variable(Path::new("/my sdk/register.js")).unwrap();
        assert_eq!((name, value.to_str().unwrap()), ("NODE_OPTIONS", "--require \"/my sdk/register.js\""));
        assert_eq!(Sdk::Go.variable(Path::new("/x")), None);
    }
}
