//! What has to be run before a service starts for the first time, and several such steps as few commands.

use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Build {
    /// `faultloom go build` of one package.
    Go { output: String, package: String },
    /// A line for a shell.
    Shell(String),
}

impl fmt::Display for Build {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Build::Go { output, package } => write!(f, "faultloom go build -o {output} {package}"),
            Build::Shell(line) => f.write_str(line),
        }
    }
}

impl Build {
    /// Whether `go build -o FOLDER/` gives the binary the same name.
    fn folder(&self) -> Option<(&str, &str)> {
        let Build::Go { output, package } = self else { return None };
        let (folder, name) = output.rsplit_once('/')?;
        (package.rsplit('/').next() == Some(name)).then_some((folder, package))
    }
}

/// One command per folder and tool: packages of one Go module are built by one command, and equal steps are run once.
/// `steps`: each with the folder in which it is run, in the order of the services.
pub fn commands(steps: &[(Option<&str>, &Build)]) -> Vec<String> {
    let mut done: Vec<(Option<&str>, Vec<&Build>)> = Vec::new();
    for (folder, build) in steps {
        let joins = |(other, builds): &&mut (Option<&str>, Vec<&Build>)| {
            let same = builds.contains(build);
            let of = |build: &Build| build.folder().map(|(folder, _)| folder.to_owned());
            other == folder && (same || (of(build).is_some() && of(builds[0]) == of(build)))
        };
        match done.iter_mut().find(joins) {
            Some((_, builds)) if builds.contains(build) => {}
            Some((_, builds)) => builds.push(build),
            None => done.push((*folder, vec![build])),
        }
    }
    let command = |(folder, builds): &(Option<&str>, Vec<&Build>)| {
        let line = match builds.as_slice() {
            [only] => only.to_string(),
            several => {
                let packages: Vec<&str> = several.iter().filter_map(|build| Some(build.folder()?.1)).collect();
                let into = several[0].folder().map_or("bin", |(folder, _)| folder);
                format!("faultloom go build -o {into}/ {}", packages.join(" "))
            }
        };
        match folder {
            Some(folder) => format!("(cd {} && {line})", crate::text::quoted(folder)),
            None => line,
        }
    };
    done.iter().map(command).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_of_one_module_and_equal_steps_are_one_command() {
        let go = |name: &str| Build::Go { output: format!("bin/{name}"), package: format!("./cmd/{name}") };
        let other = Build::Go { output: "bin/web".into(), package: ".".into() };
        let npm = Build::Shell("npm install".into());
        let (a, b) = (go("a"), go("b"));
        let steps = [
            (Some("go"), &a),
            (Some("js"), &npm),
            (Some("go"), &b),
            (Some("js"), &npm),
            (Some("go"), &other),
            (None, &a),
        ];
        assert_eq!(
            commands(&steps),
            [
                "(cd go && faultloom go build -o bin/ ./cmd/a ./cmd/b)",
                "(cd js && npm install)",
                "(cd go && faultloom go build -o bin/web .)",
                "faultloom go build -o bin/a ./cmd/a",
            ]
        );
    }
}
