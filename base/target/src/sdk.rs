//! How an SDK gets into a service that `up` starts: by a variable of its environment, without a change to its command.
//!
//! | `sdk:` | variable | value, in front of what is there already |
//! |---|---|---|
//! | `go` | | built in by the wrapper |
//! | `python` | `PYTHONPATH` | the folder with `sitecustomize.py` |
//! | `java` | `JAVA_TOOL_OPTIONS` | `-javaagent:` and the agent's jar |
//! | `node` | `NODE_OPTIONS` | `--require` and the SDK's `register.js` |
//!
//! A value that names the SDK already is left as it is: no agent is loaded twice by us.

use crate::event::Event;
use crate::target::{Service, Target};
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

/// Where the SDKs lie on this machine. Services that want one which is `None` start without it, with a warning.
#[derive(Clone, Debug, Default)]
pub struct SdkPlaces {
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

    /// The variable that brings the SDK in, with the value to put in front and what separates it from the rest.
    pub fn variable(self, place: &Path) -> Option<(&'static str, OsString, &'static str)> {
        match self {
            Sdk::Python => Some(("PYTHONPATH", place.into(), ":")),
            Sdk::Java => Some(("JAVA_TOOL_OPTIONS", option("-javaagent:", place), " ")),
            Sdk::Node => Some(("NODE_OPTIONS", option("--require ", place), " ")),
            Sdk::Go | Sdk::None => None,
        }
    }
}

/// The Java launcher and Node.js both split at blanks and both understand double quotes.
fn option(flag: &str, path: &Path) -> OsString {
    let blanks = path.to_string_lossy().contains(char::is_whitespace);
    let quote = if blanks { "\"" } else { "" };
    [OsStr::new(flag), OsStr::new(quote), path.as_os_str(), OsStr::new(quote)].into_iter().collect()
}

impl SdkPlaces {
    fn of(&self, sdk: Sdk) -> Option<&Path> {
        match sdk {
            Sdk::Python => self.python.as_deref(),
            Sdk::Java => self.java.as_deref(),
            Sdk::Node => self.node.as_deref(),
            Sdk::Go | Sdk::None => None,
        }
    }

    /// Before anything is started: every SDK that a service wants is there, or is known not to be looked for.
    pub(crate) fn check(&self, target: &Target, tell: &dyn Fn(&Event)) -> Result<(), Failure> {
        for (sdk, name, file, build) in [
            (Sdk::Python, "Python", "sitecustomize.py", ""),
            (Sdk::Java, "Java", "", "mvn -q -f sdk/java/pom.xml package -DskipTests"),
            (Sdk::Node, "Node.js", "", "npm --prefix sdk/typescript ci && npm --prefix sdk/typescript run build"),
        ] {
            let Some(service) = target.services().iter().find(|service| service.sdk == sdk) else { continue };
            let Some(place) = self.of(sdk) else {
                tell(&Event::Warning(format!(
                    "service '{}' starts without the {name} SDK: no place was given",
                    service.name
                )));
                continue;
            };
            if place.join(file).is_file() || (file.is_empty() && place.is_file()) {
                continue;
            }
            let failure = Failure::environment(format!("no {name} SDK in {}", place.display()));
            return Err(match build {
                "" => failure
                    .why(format!("service '{}' wants it (sdk: {}), and {file} is not there", service.name, sdk.name()))
                    .next(format!("give the folder with {file}, or write sdk: none")),
                build => failure
                    .why(format!("service '{}' wants it (sdk: {}), and it is not built", service.name, sdk.name()))
                    .next(format!("build it ({build}), or write sdk: none")),
            });
        }
        Ok(())
    }

    /// What the service's environment gets besides its own; its own value of the variable, or ours, is extended.
    pub(crate) fn variable(&self, service: &Service) -> Option<(&'static str, OsString)> {
        let (name, first, between) = service.sdk.variable(self.of(service.sdk)?)?;
        let before = service.environment.get(name).map(OsString::from).or_else(|| std::env::var_os(name));
        Some((name, extended(first, between, before)))
    }
}

fn extended(mut first: OsString, between: &str, before: Option<OsString>) -> OsString {
    match before.filter(|before| !before.is_empty()) {
        Some(before) if before.to_string_lossy().contains(&*first.to_string_lossy()) => before,
        Some(before) => {
            first.push(between);
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
    fn names_and_values_belong_together() {
        for name in Sdk::NAMES {
            assert_eq!(Sdk::parse(name).unwrap().name(), name);
        }
        assert_eq!(Sdk::parse("ruby"), None);
    }

    #[test]
    fn what_is_there_is_kept_and_no_agent_is_there_twice() {
        let java = |before: Option<&str>| {
            let (_, first, between) = Sdk::Java.variable(Path::new("/sdk/a.jar")).unwrap();
            extended(first, between, before.map(OsString::from)).into_string().unwrap()
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
