//! Lines that give a service its SDK and its trust settings if `up` does not start it, for shells, Docker, systemd and
//! Kubernetes.
//!
//! The lines refer to the file with the keys; the keys themselves are printed only on request. In images and pods the
//! SDK is in `/opt/faultloom`, and the file with the keys is mounted.

use crate::draft::kubernetes::ClusterView;
use crate::text::quoted;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use target::{Sdk, Service, Target};

pub(crate) const IN_IMAGE: &str = "/opt/faultloom";
const KEYS_IN_IMAGE: &str = "/run/secrets/faultloom.trust";

/// Where a service is started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    #[default]
    Shell,
    Docker,
    Systemd,
    Kubernetes,
}

impl Form {
    pub const NAMES: [&'static str; 4] = ["shell", "docker", "systemd", "kubernetes"];

    pub fn parse(name: &str) -> Form {
        let all = [Form::Shell, Form::Docker, Form::Systemd, Form::Kubernetes];
        all.into_iter().zip(Form::NAMES).find(|(_, own)| *own == name).map_or(Form::Shell, |(form, _)| form)
    }
}

pub struct Installation<'a> {
    pub service: String,
    pub target: Option<&'a Target>,
    /// The service in the target file, if it has one of this name.
    pub described: Option<&'a Service>,
    pub sdk: Sdk,
    /// Path of the SDK on this machine.
    pub sdk_path: PathBuf,
    pub trust_file: PathBuf,
    pub trust: String,
    pub status: PathBuf,
    pub show_keys: bool,
    /// The command that creates the keys, if there are none yet.
    pub create_keys: Option<String>,
    /// The manifests of its cluster, for that form.
    pub cluster: Option<&'a ClusterView>,
}

impl Installation<'_> {
    pub fn text(&self, form: Form) -> String {
        let first = self.create_keys.as_ref().filter(|_| form != Form::Shell);
        let first = first.map(|command| format!("# once, to create the keys: {command}\n")).unwrap_or_default();
        first + &self.lines(form)
    }

    fn lines(&self, form: Form) -> String {
        match form {
            Form::Shell => self.shell(),
            Form::Docker => self.docker(),
            Form::Systemd => self.systemd(),
            Form::Kubernetes => self.kubernetes(),
        }
    }

    /// Variables of its process on this machine. The variable that loads the SDK does not include an existing value.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        let mut all = vec![("FAULTLOOM_SERVICE", self.service.clone())];
        let peers = self.target.map(Target::peers).unwrap_or_default();
        if !peers.is_empty() {
            all.push(("FAULTLOOM_PEERS", peers));
        }
        all.push(("FAULTLOOM_TRUST_FILE", self.trust_file.display().to_string()));
        all.push(("FAULTLOOM_STATUS", self.status.display().to_string()));
        if let Some((name, value, _)) = self.sdk.variable(&self.sdk_path) {
            all.push((name, value.to_string_lossy().into_owned()));
        }
        all
    }

    fn shell(&self) -> String {
        let mut out = format!("# {} ({}): before its program is started\n", self.service, self.sdk.name());
        if let Some(command) = &self.create_keys {
            let _ = writeln!(out, "{command} > /dev/null    # creates the keys once");
        }
        if self.show_keys {
            out += &self.keys("# ");
        }
        for (name, value) in self.environment() {
            match self.sdk.variable(&self.sdk_path).filter(|(own, ..)| *own == name) {
                // an existing value is kept after ours
                Some((_, _, between)) => {
                    let value = double_quoted(&value);
                    let _ = writeln!(out, "export {name}=\"{value}${{{name}:+{between}${name}}}\"");
                }
                None => {
                    let _ = writeln!(out, "export {name}={}", quoted(&value));
                }
            }
        }
        let build = self.go_build();
        if let Some(service) = self.described {
            let _ = writeln!(out, "cd {}", quoted(&service.directory.display().to_string()));
        }
        match &build {
            Some(Ok(line)) => {
                let _ = writeln!(out, "{line}");
            }
            Some(Err(advice)) => {
                let _ = writeln!(out, "# {advice}");
            }
            None => {}
        }
        match self.described.filter(|service| !service.is_attached()) {
            Some(service) => {
                for (name, value) in &service.environment {
                    let _ = writeln!(out, "export {name}={}", quoted(value));
                }
                let _ = writeln!(out, "exec {}", service.command_line());
            }
            None => out += "# now start it as usual\n",
        }
        out + &self.one_line("# ")
    }

    /// How a Go binary gets the SDK: a command if the binary and its package are known, else advice. None for other
    /// languages.
    fn go_build(&self) -> Option<Result<String, String>> {
        if self.sdk != Sdk::Go {
            return None;
        }
        let advice = || Err("build it with `faultloom go build …` in place of `go build …`".to_owned());
        let Some(service) = self.described.filter(|service| !service.is_attached()) else { return Some(advice()) };
        let binary = Path::new(&service.command[0]);
        let package = crate::draft::go_package(&service.name, &service.directory);
        Some(match (binary.strip_prefix(&service.directory), package) {
            (Ok(binary), Some(package)) => {
                Ok(format!("faultloom go build -o {} {package}", quoted(&binary.display().to_string())))
            }
            _ => advice(),
        })
    }

    pub(crate) fn one_line(&self, begin: &str) -> String {
        let text = match self.sdk {
            Sdk::Go => "in your own build instead: import _ \"faultloom.dev/go/auto\" in package main",
            Sdk::Python => "without the variable: import faultloom.auto as the first line of the program",
            Sdk::Node => "without the variable: import \"faultloom/auto\" as the first line of the program",
            Sdk::Java => "without the variable: -javaagent:… as the first option of the java command",
            Sdk::None => return String::new(),
        };
        format!("{begin}{text}\n")
    }

    /// The trust settings, line by line; none before they are created.
    pub(crate) fn keys(&self, begin: &str) -> String {
        self.trust.lines().fold(String::new(), |out, line| out + begin + line + "\n")
    }

    /// The folder for `docker build --build-context`, the files to copy from it, and the SDK's path in the image.
    pub(crate) fn source(&self) -> (PathBuf, &'static str, String) {
        let up = |path: &Path, levels: usize| path.ancestors().nth(levels).unwrap_or(Path::new("/")).to_owned();
        match self.sdk {
            // …/src/faultloom/boot: the package is two levels up
            Sdk::Python => (up(&self.sdk_path, 2), "faultloom", format!("{IN_IMAGE}/faultloom/boot")),
            Sdk::Java => (up(&self.sdk_path, 1), "faultloom-agent.jar", format!("{IN_IMAGE}/faultloom-agent.jar")),
            Sdk::Node => (up(&self.sdk_path, 1), "register.js package.json dist", format!("{IN_IMAGE}/register.js")),
            Sdk::Go | Sdk::None => (self.sdk_path.clone(), ".", String::new()),
        }
    }

    /// Addresses of the services in a network of containers or pods.
    pub(crate) fn peers_in_network(&self) -> String {
        let services = self.target.map(Target::services).unwrap_or_default();
        let pairs = services
            .iter()
            .flat_map(|service| service.listens.iter().map(|listen| format!("{0}:{1}={0}", service.name, listen.port)));
        pairs.collect::<Vec<_>>().join(",")
    }

    fn docker(&self) -> String {
        let (source, copied, in_image) = self.source();
        let name = &self.service;
        let mut out = format!("# {name} ({}): lines for its Dockerfile\n", self.sdk.name());
        match self.sdk {
            Sdk::Go => {
                out += "# in the stage that builds:\n";
                let _ = writeln!(out, "COPY --from=faultloom . {IN_IMAGE}/sdk/go");
                let _ = writeln!(
                    out,
                    "RUN cd {IN_IMAGE}/sdk/go && go build -o /usr/local/bin/faultloom-go ./cmd/faultloom-go"
                );
                out += "# and there, in place of `RUN go build …`: RUN faultloom-go build …\n";
                out += "# in the stage that runs:\n";
            }
            Sdk::Python => {
                let _ = writeln!(out, "COPY --from=faultloom {copied} {IN_IMAGE}/faultloom");
            }
            Sdk::Node => {
                let _ = writeln!(out, "COPY --from=faultloom register.js package.json {IN_IMAGE}/");
                let _ = writeln!(out, "COPY --from=faultloom dist {IN_IMAGE}/dist");
            }
            Sdk::Java | Sdk::None => {
                let _ = writeln!(out, "COPY --from=faultloom {copied} {IN_IMAGE}/");
            }
        }
        let _ = writeln!(out, "ENV FAULTLOOM_SERVICE={name}");
        if let Some((variable, value, _)) = self.sdk.variable(Path::new(&in_image)) {
            let _ = writeln!(out, "ENV {variable}=\"{}\"", value.to_string_lossy());
        }
        let _ = writeln!(
            out,
            "# build: docker build --build-context faultloom={} …",
            quoted(&source.display().to_string())
        );
        out += "# run: the keys are no part of the image; the container's user must be able to read the file\n";
        let mount = format!("type=bind,src={},dst={KEYS_IN_IMAGE},readonly", self.trust_file.display());
        let _ = write!(out, "#   docker run --mount {} -e FAULTLOOM_TRUST_FILE={KEYS_IN_IMAGE}", quoted(&mount));
        let peers = self.peers_in_network();
        if !peers.is_empty() {
            let _ = write!(out, " -e FAULTLOOM_PEERS={peers}");
        }
        out += " …\n";
        if self.show_keys {
            out += &self.keys("# ");
        }
        out + &self.one_line("# ")
    }

    fn systemd(&self) -> String {
        let name = &self.service;
        let mut out = format!("# {name} ({}): /etc/systemd/system/{name}.service.d/faultloom.conf\n", self.sdk.name());
        out += "# then: systemctl daemon-reload && systemctl restart ";
        let _ = writeln!(out, "{name}");
        if self.sdk == Sdk::Go {
            out += "# its binary is built with `faultloom go build …` in place of `go build …`\n";
        }
        if self.show_keys {
            out += &self.keys("# ");
        }
        out += "[Service]\n";
        out += "# systemd copies the keys when the service starts, so `faults off` takes effect at its next start\n";
        let _ = writeln!(out, "LoadCredential=faultloom.trust:{}", self.trust_file.display());
        for (variable, value) in self.environment() {
            match variable {
                "FAULTLOOM_TRUST_FILE" => out += "Environment=FAULTLOOM_TRUST_FILE=%d/faultloom.trust\n",
                "FAULTLOOM_STATUS" => {} // its user may not write there
                _ => {
                    let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%");
                    let _ = writeln!(out, "Environment=\"{variable}={value}\"");
                }
            }
        }
        out + &self.one_line("# ")
    }
}

/// For use between double quotes in a shell.
fn double_quoted(text: &str) -> String {
    text.chars().flat_map(|c| if "\\\"$`".contains(c) { vec!['\\', c] } else { vec![c] }).collect()
}
