//! The versions of languages and systems with which an area ran, as steps such as `runtime::python-3.11`.
//!
//! A row that claims a version names its step. A machine with another version has not tested it: that counts as a skip.

use crate::shell::{root, text};

/// A language or system and the area whose success shows that it works.
struct Runtime {
    name: &'static str,
    area: &'static str,
    /// Numbers of the version that a claim has.
    numbers: usize,
    /// A shell command that prints the version, possibly with text around it.
    version: &'static str,
}

const RUNTIMES: [Runtime; 7] = [
    Runtime { name: "go", area: "sdk-go", numbers: 2, version: "go env GOVERSION" },
    Runtime { name: "python", area: "sdk-python", numbers: 2, version: "out/python-sdk/bin/python --version" },
    Runtime { name: "java", area: "sdk-java", numbers: 1, version: "java --version" },
    Runtime { name: "node", area: "sdk-node", numbers: 1, version: "node --version" },
    Runtime { name: "rust", area: "rust", numbers: 2, version: "rustc --version" },
    Runtime { name: "linux", area: "rust", numbers: 1, version: "uname -r" },
    Runtime {
        name: "debian",
        area: "install",
        numbers: 1,
        version: ". /etc/os-release; test $ID = debian && echo $VERSION_ID",
    },
];

/// Names with version of what the area ran with.
pub fn of_area(area: &str) -> Vec<String> {
    RUNTIMES.iter().filter(|runtime| runtime.area == area).filter_map(Runtime::name_with_version).collect()
}

/// The area that runs with a runtime, such as `python-3.11`. `None` if there is no such runtime.
pub fn area_of(name: &str) -> Option<&'static str> {
    let (name, version) = name.split_once('-')?;
    let runtime = RUNTIMES.iter().find(|runtime| runtime.name == name)?;
    let numbers: Vec<&str> = version.split('.').collect();
    let is_version = numbers.iter().all(|number| number.parse::<u32>().is_ok()) && numbers.len() == runtime.numbers;
    is_version.then_some(runtime.area)
}

impl Runtime {
    fn name_with_version(&self) -> Option<String> {
        let printed = text("sh", &["-c", &format!("cd '{}' && {}", root().display(), self.version)]);
        version(&printed, self.numbers).map(|version| format!("{}-{version}", self.name))
    }
}

/// The first numbers in a text, separated by dots.
fn version(printed: &str, numbers: usize) -> Option<String> {
    let begin = printed.find(|c: char| c.is_ascii_digit())?;
    let version = printed[begin..].split(|c: char| !c.is_ascii_digit() && c != '.').next()?;
    let parts: Vec<&str> = version.split('.').take(numbers).collect();
    (parts.len() == numbers).then(|| parts.join("."))
}

#[cfg(test)]
mod tests {
    use super::{area_of, version};

    #[test]
    fn versions_are_cut_to_their_first_numbers() {
        assert_eq!(version("Python 3.11.7", 2).as_deref(), Some("3.11"));
        assert_eq!(version("openjdk 17.0.19 2026-04-21", 1).as_deref(), Some("17"));
        assert_eq!(version("v20.20.2", 1).as_deref(), Some("20"));
        assert_eq!(version("go1.26.1", 2).as_deref(), Some("1.26"));
        assert_eq!(version("6.8.0-90-generic", 1).as_deref(), Some("6"));
        assert_eq!(version("not found", 1), None);
    }

    #[test]
    fn a_runtime_has_an_area_and_a_version() {
        assert_eq!(area_of("python-3.11"), Some("sdk-python"));
        assert_eq!(area_of("node-20"), Some("sdk-node"));
        assert_eq!(area_of("python-3"), None);
        assert_eq!(area_of("python"), None);
        assert_eq!(area_of("ruby-3.4"), None);
    }
}
