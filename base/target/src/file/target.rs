//! The checked application under study: what each service is, where it listens, how it starts.
//!
//! Paths are absolute. Loading finds all errors that the file alone can show; whether programs exist and ports are free
//! is checked at start.

use crate::file::address::{Address, GrpcAddress, HttpAddress};
use crate::file::check::Check;
use crate::file::target_file::{self, CommandEntry, HealthEntry, ServiceEntry, did_you_mean};
use crate::health::{Health, describe_io_error};
use crate::sdk::Sdk;
use model::Failure;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tls::TlsSettings;

const START_TIMEOUT: Duration = Duration::from_secs(20);
/// A service that works on its start gets so many times its `start_timeout_s`.
const BUSY_START_FACTOR: u32 = 3;
/// The environment name is the target's name, a dash and four hex digits, and has at most 64 bytes.
const TARGET_NAME_BYTES: usize = 59;
const SERVICE_NAME_BYTES: usize = 64;
/// Set by the supervisor for every service; a target file may not set them.
pub(crate) const OWN_VARIABLES: [&str; 6] = [
    "FAULTLOOM_TRUST_FILE",
    "FAULTLOOM_TRUST",
    "FAULTLOOM_SERVICE",
    "FAULTLOOM_PEERS",
    "FAULTLOOM_STATUS",
    "FAULTLOOM_UP",
];

#[derive(Clone, Debug)]
pub struct Target {
    pub name: String,
    /// Absolute path of the target file.
    pub file: PathBuf,
    /// The default URL of requests.
    pub entry: Option<HttpAddress>,
    /// For the entry, for health checks, and for requests that name no other settings. Paths are absolute.
    pub tls: TlsSettings,
    services: Vec<Service>,
    checks: Vec<Check>,
}

#[derive(Clone, Debug)]
pub struct Service {
    /// 1 to 64 letters, digits, `.`, `_`, `-`; unique in the target.
    pub name: String,
    /// Program and arguments; a program path with a `/` is absolute. Empty: attached, started by something else.
    pub command: Vec<String>,
    /// Absolute.
    pub directory: PathBuf,
    pub sdk: Sdk,
    pub environment: BTreeMap<String, String>,
    pub listens: Vec<Address>,
    pub health: Health,
    pub start_timeout: Duration,
    /// Started with the others, but not one of the application's own services (a cache, a database).
    pub support: bool,
}

impl Target {
    /// Reads and checks a target file. Blocks for one small read.
    ///
    /// Errors: family `Request`, naming the line or the service; nothing has been started.
    pub fn load(path: impl AsRef<Path>) -> Result<Target, Failure> {
        let path = path.as_ref();
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| {
            Failure::request(format!("cannot read the target file {shown}"))
                .why(describe_io_error(&error))
                .next("check the path; docs/guides/first-minutes.md shows an example")
        })?;
        let file = path.canonicalize().map_err(|error| {
            Failure::request(format!("cannot resolve the target file {shown}")).why(error.to_string())
        })?;
        Target::parse(&text, &file, &shown)
    }

    /// As [`Target::load`], from text. `file` must be absolute; `shown` is the path in messages.
    pub fn parse(text: &str, file: &Path, shown: &str) -> Result<Target, Failure> {
        let parsed = target_file::parse(text, shown)?;
        target_file::refuse_open_values(&parsed, shown)?;
        let folder = file.parent().unwrap_or(Path::new("/"));
        check_name(&parsed.name, TARGET_NAME_BYTES, &format!("{shown}: the target's name"))?;
        let entry = match &parsed.entry {
            Some(text) => Some(HttpAddress::parse(text).map_err(|reason| {
                Failure::request(format!("{shown}: entry '{text}' cannot be used"))
                    .why(reason)
                    .next("write it like http://127.0.0.1:8080/")
            })?),
            None => None,
        };
        let file_of = |path: Option<String>| path.map(PathBuf::from);
        let tls = parsed.tls.unwrap_or_default();
        let tls = TlsSettings {
            cacert: file_of(tls.cacert),
            cert: file_of(tls.cert),
            key: file_of(tls.key),
            insecure: tls.insecure.unwrap_or(false),
        };
        if parsed.services.is_empty() {
            return Err(Failure::request(format!("{shown}: the list of services is empty"))
                .next("add at least one service with a name and a command"));
        }
        let mut services = Vec::new();
        for entry in parsed.services {
            services.push(Service::check(entry, folder, shown)?);
        }
        let checks = parsed.checks.unwrap_or_default().into_iter();
        let checks = checks.map(|entry| Check::new(entry, folder, shown)).collect::<Result<_, _>>()?;
        let tls = tls.in_folder(folder);
        let target = Target { name: parsed.name, file: file.to_owned(), entry, tls, services, checks };
        target.check_unique(shown)?;
        Ok(target)
    }

    /// All services in file order, including support services.
    pub fn services(&self) -> &[Service] {
        &self.services
    }

    /// What correct replies are, in file order.
    pub fn checks(&self) -> &[Check] {
        &self.checks
    }

    /// The same without some of its services; `None` if none is left.
    pub fn without(&self, names: &[&str]) -> Option<Target> {
        let mut rest = self.clone();
        rest.services.retain(|service| !names.contains(&service.name.as_str()));
        (!rest.services.is_empty()).then_some(rest)
    }

    /// Names of the application's own services, without support services, in file order. Fault spaces consist of these.
    pub fn own_services(&self) -> Vec<&str> {
        self.services.iter().filter(|service| !service.support).map(|service| service.name.as_str()).collect()
    }

    pub fn service(&self, name: &str) -> Option<&Service> {
        self.services.iter().find(|service| service.name == name)
    }

    /// The text of `FAULTLOOM_PEERS`: every listen address and its loopback names, each `=` its service.
    pub fn peers(&self) -> String {
        let mut pairs = Vec::new();
        for service in &self.services {
            for name in service.listens.iter().flat_map(Address::names) {
                pairs.push(format!("{name}={}", service.name));
            }
        }
        pairs.join(",")
    }

    fn check_unique(&self, shown: &str) -> Result<(), Failure> {
        let mut listens: BTreeMap<String, &str> = BTreeMap::new();
        for (at, service) in self.services.iter().enumerate() {
            if self.services[..at].iter().any(|before| before.name == service.name) {
                return Err(Failure::request(format!("{shown}: two services are named '{}'", service.name))
                    .next("give one of them another name"));
            }
            for name in service.listens.iter().flat_map(Address::names) {
                match listens.insert(name.clone(), &service.name) {
                    Some(other) if other != service.name => {
                        return Err(Failure::request(format!(
                            "{shown}: services '{other}' and '{}' both listen on {name}",
                            service.name
                        ))
                        .next("give one of them another port"));
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

impl Service {
    /// The longest that a start may take, if the service is busy with it.
    pub fn longest_start(&self) -> Duration {
        self.start_timeout.saturating_mul(BUSY_START_FACTOR)
    }

    fn check(entry: ServiceEntry, folder: &Path, shown: &str) -> Result<Service, Failure> {
        check_name(&entry.name, SERVICE_NAME_BYTES, &format!("{shown}: the name of a service"))?;
        let at = format!("{shown}: service '{}'", entry.name);
        if entry.command.is_none() {
            check_attached(&entry, &at)?;
        }
        let directory = folder.join(entry.directory.as_deref().unwrap_or("."));
        let directory = directory.canonicalize().unwrap_or(directory.components().collect());
        let listens = entry
            .listens
            .unwrap_or_default()
            .iter()
            .map(|text| parse_address(text, &format!("{at}: listens")))
            .collect::<Result<Vec<Address>, Failure>>()?;
        let sdk = check_sdk(entry.sdk.as_deref().unwrap_or("none"), &at)?;
        let start_timeout = match entry.start_timeout_s {
            None => START_TIMEOUT,
            Some(s) if s > 0.0 && s <= 3600.0 => Duration::from_secs_f64(s),
            Some(s) => {
                return Err(Failure::request(format!("{at}: start_timeout_s is {s}"))
                    .next("write a number of seconds above 0, at most 3600"));
            }
        };
        let environment = entry.environment.unwrap_or_default();
        if let Some(name) = environment.keys().find(|name| name.is_empty() || name.contains(['=', '\0'])) {
            return Err(Failure::request(format!("{at}: environment name '{name}' cannot be used"))
                .next("a name is not empty and has no '='"));
        }
        if let Some(name) = environment.keys().find(|name| OWN_VARIABLES.contains(&name.as_str())) {
            return Err(Failure::request(format!("{at}: environment may not set {name}"))
                .why("the tool sets it for every service it starts")
                .next("remove it"));
        }
        Ok(Service {
            command: entry.command.map_or(Ok(Vec::new()), |command| check_command(command, &directory, &at))?,
            health: check_health(entry.health, &listens, &at)?,
            name: entry.name,
            directory,
            sdk,
            environment,
            listens,
            start_timeout,
            support: entry.support.unwrap_or(false),
        })
    }

    /// Started by something else.
    pub fn is_attached(&self) -> bool {
        self.command.is_empty()
    }

    /// The command as one line to paste into a shell.
    pub fn command_line(&self) -> String {
        let quote = |word: &String| {
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
            match !word.is_empty() && word.chars().all(plain) {
                true => word.clone(),
                false => format!("'{}'", word.replace('\'', r"'\''")),
            }
        };
        self.command.iter().map(quote).collect::<Vec<_>>().join(" ")
    }
}

/// A service without a command is observed only at its address.
fn check_attached(entry: &ServiceEntry, at: &str) -> Result<(), Failure> {
    if entry.listens.as_ref().is_none_or(Vec::is_empty) && entry.health.is_none() {
        return Err(Failure::request(format!("{at} has neither a command nor an address"))
            .why("a service without a command must be running already, and needs `listens` or `health`")
            .next("add 'command: …', a list of words such as [\"./server\", \"--port\", \"8080\"]; or 'listens: …'"));
    }
    let without_effect = [("environment", entry.environment.is_some()), ("directory", entry.directory.is_some())];
    match without_effect.iter().find(|(_, is_set)| *is_set) {
        Some((key, _)) => Err(Failure::request(format!("{at}: {key} has no effect without a command"))
            .why("a service without a command is not started by this tool")
            .next("add its command, or remove that line")),
        None => Ok(()),
    }
}

fn check_command(command: CommandEntry, directory: &Path, at: &str) -> Result<Vec<String>, Failure> {
    let empty =
        || Failure::request(format!("{at}: its command is empty")).next("write a list of words, or a text for `sh -c`");
    match command {
        CommandEntry::Shell(text) if text.trim().is_empty() => Err(empty()),
        CommandEntry::Shell(text) => Ok(vec!["sh".into(), "-c".into(), text]),
        CommandEntry::Words(words) => {
            let (program, arguments) = words.split_first().filter(|(first, _)| !first.is_empty()).ok_or_else(empty)?;
            let program = match program.contains('/') {
                true => directory.join(program).components().collect::<PathBuf>().to_string_lossy().into_owned(),
                false => program.clone(),
            };
            Ok(std::iter::once(program).chain(arguments.iter().cloned()).collect())
        }
    }
}

fn check_sdk(name: &str, at: &str) -> Result<Sdk, Failure> {
    Sdk::parse(name).ok_or_else(|| {
        let failure = Failure::request(format!("{at}: sdk '{name}' is not one of {}", Sdk::NAMES.join(", ")));
        match did_you_mean(name, Sdk::NAMES.into_iter()) {
            Some(near) => failure.next(format!("did you mean '{near}'?")),
            None => failure.next("write none for other languages; faults at its callers still work"),
        }
    })
}

fn check_health(entry: Option<HealthEntry>, listens: &[Address], at: &str) -> Result<Health, Failure> {
    let at = format!("{at}: health");
    match entry {
        None => Ok(listens.first().map_or(Health::Alive, |first| Health::Tcp(first.reachable()))),
        Some(HealthEntry { http: Some(url), tcp: None, grpc: None }) => {
            HttpAddress::parse(&url).map(Health::Http).map_err(|reason| {
                Failure::request(format!("{at}: '{url}' cannot be used"))
                    .why(reason)
                    .next("write it like http://127.0.0.1:8080/healthz")
            })
        }
        Some(HealthEntry { http: None, tcp: Some(tcp), grpc: None }) => parse_address(&tcp, &at).map(Health::Tcp),
        Some(HealthEntry { http: None, tcp: None, grpc: Some(grpc) }) => {
            GrpcAddress::parse(&grpc).map(Health::Grpc).map_err(|reason| {
                Failure::request(format!("{at}: '{grpc}' cannot be used"))
                    .why(reason)
                    .next("write it like 127.0.0.1:7001, or grpcs://127.0.0.1:7001 with TLS")
            })
        }
        Some(_) => Err(Failure::request(format!("{at} needs exactly one of http, tcp, grpc"))
            .next("write for example {tcp: \"127.0.0.1:7001\"}, or remove health")),
    }
}

fn parse_address(text: &str, at: &str) -> Result<Address, Failure> {
    Address::parse(text).map_err(|reason| {
        Failure::request(format!("{at}: '{text}' cannot be used")).why(reason).next("write it like 127.0.0.1:7001")
    })
}

/// Names become file names, parts of `FAULTLOOM_PEERS` and words in fault texts.
fn check_name(name: &str, bytes: usize, at: &str) -> Result<(), Failure> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let fits = !name.is_empty() && name.len() <= bytes && name.chars().all(allowed) && !name.starts_with(['.', '-']);
    match fits {
        true => Ok(()),
        false => Err(Failure::request(format!("{at} is '{name}'")).next(format!(
            "use 1 to {bytes} letters, digits, '.', '_' or '-', beginning with a letter, a digit or '_'"
        ))),
    }
}
