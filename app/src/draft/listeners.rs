//! The listeners of this machine as a target of attached services.
//!
//! `/proc/net/tcp` lists the sockets and `/proc/<pid>/fd` their owners, as far as this user may read them. A socket
//! that a process shares with its workers is attributed to the parent. To find the entry, each listener of the
//! application gets one HTTP request for a page that does not exist.

use super::language::{self, mark_support, program_sdk, support};
use super::{Draft, Guess, Service, folder_name, guess, likely, stated};
use ::process::{ProcDir, TcpListener, link_inode, pids, tcp_listeners};
use model::Failure;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;
use target::Sdk;

const NO_SUCH_PAGE: &str = "/faultloom-init";
/// How long a listener may take to answer the request that shows whether it serves HTTP.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);

/// What is read of a process from `/proc`.
#[derive(Clone, Debug)]
pub struct Process {
    pub pid: u32,
    pub command: Vec<String>,
    pub folder: PathBuf,
    /// `FAULTLOOM_SERVICE` of its environment, and whether trust settings are in it.
    pub service: Option<String>,
    pub trusted: bool,
    pub trust_file: Option<String>,
    /// Built by Go.
    pub go: bool,
    pub addresses: Vec<SocketAddr>,
}

/// Only these `ports`; all if empty.
pub fn draft(ports: &[u16]) -> Result<Draft, Failure> {
    let found = holding(ports);
    let mut draft = from_processes(&found, &serves_http);
    let found_ports: BTreeSet<u16> =
        found.iter().flat_map(|process| &process.addresses).map(SocketAddr::port).collect();
    for port in ports.iter().filter(|port| !found_ports.contains(port)) {
        draft.notes.push(format!("port {port}: no listener is visible to this user"));
    }
    if draft.services.is_empty() {
        return Err(Failure::request("no listeners to attach to")
            .why(match ports {
                [] => "no process of this user listens on TCP".to_owned(),
                _ => draft.notes.join("\n"),
            })
            .next("start your application first; only root can read other users' processes"));
    }
    Ok(draft)
}

/// `serves_http`: whether the listener at this address answers an HTTP request.
pub fn from_processes(processes: &[Process], serves_http: &dyn Fn(&str) -> bool) -> Draft {
    let mut draft = Draft::new("listeners of this machine", folder_name(Path::new(".")));
    for process in processes {
        draft.services.push(service(process));
    }
    draft.entry = entry(&draft.services, serves_http);
    draft
}

/// The first listener that serves HTTP, of services in a language with an SDK if there is one.
fn entry(services: &[Service], serves_http: &dyn Fn(&str) -> bool) -> Option<Guess<String>> {
    let own = services.iter().filter(|service| service.support.is_none());
    let (with_sdk, others): (Vec<&Service>, Vec<&Service>) = own.partition(|service| service.sdk.value != Sdk::None);
    let addresses = |services: &[&Service]| -> Vec<String> {
        services.iter().flat_map(|service| &service.listens).map(|listen| listen.value.clone()).collect()
    };
    let all = [addresses(&with_sdk), addresses(&others)].concat();
    if let Some(address) = all.iter().find(|address| serves_http(address)) {
        return Some(guess(format!("http://{address}/"), "the first of these that answers HTTP"));
    }
    let first = with_sdk.first()?.listens.first()?;
    Some(guess(format!("http://{}/", first.value), "the first of these; none answered HTTP. For gRPC: record grpc://…"))
}

fn serves_http(address: &str) -> bool {
    let Ok(socket) = address.parse() else { return false };
    let Ok(mut stream) = TcpStream::connect_timeout(&socket, ANSWER_TIMEOUT) else { return false };
    let limits = stream.set_read_timeout(Some(ANSWER_TIMEOUT)).and(stream.set_write_timeout(Some(ANSWER_TIMEOUT)));
    let request = format!("GET {NO_SUCH_PAGE} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    if limits.is_err() || stream.write_all(request.as_bytes()).is_err() {
        return false;
    }
    // a server of HTTP/2 only, such as gRPC, answers with frames or closes the connection
    let mut begin = [0; 7];
    stream.read_exact(&mut begin).is_ok() && &begin == b"HTTP/1."
}

fn service(process: &Process) -> Service {
    let program = process.command.first().map_or("", |program| base(program));
    let sdk: Guess<Sdk> = match program_sdk(&process.command[..process.command.len().min(1)]) {
        Some(found) => likely(found.value, format!("it runs {program}")),
        None if process.go => stated(Sdk::Go, format!("{program} was built by Go")),
        None => language::none(format!("{program} is not in a language with an SDK")),
    };
    let mut service = Service::new(name(process), sdk);
    let trust = if process.trusted { "with trust settings" } else { "without trust settings" };
    service.attached = Some(format!("runs already: pid {}, {trust}", process.pid));
    if let Some((name, _)) = support(program) {
        mark_support(&mut service, name);
    }
    for address in &process.addresses {
        let host = match address.ip() {
            ip if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
            ip => ip,
        };
        let shown = SocketAddr::new(host, address.port()).to_string();
        service.listens.push(stated(shown, format!("pid {} listens there", process.pid)));
    }
    service
}

/// `FAULTLOOM_SERVICE`, or the name of the script, jar or module; of the folder for generic names like `main`.
fn name(process: &Process) -> String {
    if let Some(name) = &process.service {
        return name.clone();
    }
    let words = &process.command;
    let program = words.first().map_or("service", |program| base(program));
    let module = words.windows(2).find(|pair| pair[0] == "-m").map(|pair| pair[1].as_str());
    let jar = words.iter().find(|word| word.ends_with(".jar")).map(|jar| base(jar));
    let script = words.iter().skip(1).find(|word| !word.starts_with('-')).map(|script| base(script));
    let is_interpreter = program_sdk(&words[..words.len().min(1)]).is_some();
    let stem = match (is_interpreter, module, jar, script) {
        (false, ..) => program,
        (true, Some(module), ..) => module.split(':').next().unwrap_or(module).rsplit('.').next().unwrap_or(module),
        (true, None, Some(jar), _) => jar.trim_end_matches(".jar"),
        (true, None, None, Some(script)) => script.split(['.', ':']).next().unwrap_or(script),
        (true, None, None, None) => program,
    };
    // without a version at the end: shipping-1.2.0
    let stem = stem
        .rsplit_once('-')
        .filter(|(_, last)| last.starts_with(|c: char| c.is_ascii_digit()))
        .map_or(stem, |(name, _)| name);
    let generic = ["main", "server", "index", "app", "start", "wsgi", "manage", "flask", "http"];
    match generic.contains(&stem) {
        true => process.folder.file_name().map_or(stem.to_owned(), |name| name.to_string_lossy().into_owned()),
        false => stem.to_owned(),
    }
}

fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Processes that listen on these ports; on any port if there are none.
pub fn holding(ports: &[u16]) -> Vec<Process> {
    let wanted = |address: &SocketAddr| ports.is_empty() || ports.contains(&address.port());
    let listeners = tcp_listeners().into_iter().filter(|listener| wanted(&listener.address));
    let mut sockets: BTreeMap<u64, SocketAddr> = listeners
        .map(|TcpListener { address, inode }| (inode, SocketAddr::new(address.ip().to_canonical(), address.port())))
        .collect();
    let own = std::process::id();
    let mut pids: Vec<u32> = pids().filter(|pid| *pid != own).collect();
    // parents have lower pids than their workers, unless pids have wrapped around
    pids.sort_unstable();
    let mut found = Vec::new();
    for pid in pids {
        let Ok(directory) = ProcDir::open(pid) else { continue };
        let links = directory.link_targets("fd");
        let inodes = links.iter().filter_map(|target| link_inode(target.as_encoded_bytes(), b"socket:["));
        let addresses: BTreeSet<SocketAddr> = inodes.filter_map(|inode| sockets.remove(&inode)).collect();
        let addresses = one_per_port(addresses);
        if !addresses.is_empty() {
            found.extend(process(pid, addresses));
        }
    }
    found.sort_by_key(|process: &Process| process.addresses[0].port());
    found
}

/// A listener on both families is one.
fn one_per_port(addresses: BTreeSet<SocketAddr>) -> Vec<SocketAddr> {
    let mut kept: Vec<SocketAddr> = Vec::new();
    for address in addresses {
        if !kept.iter().any(|other| other.port() == address.port()) {
            kept.push(address);
        }
    }
    kept.sort_by_key(SocketAddr::port);
    kept
}

fn process(pid: u32, addresses: Vec<SocketAddr>) -> Option<Process> {
    let split = |file: &str| -> Vec<String> {
        let bytes = std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        bytes.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
    };
    let mut command = split("cmdline");
    while command.last().is_some_and(String::is_empty) {
        command.pop();
    }
    let program = std::fs::read_link(format!("/proc/{pid}/exe")).ok();
    if command.is_empty() {
        return None;
    }
    let environment = split("environ");
    let variable = |name: &str| environment.iter().find_map(|entry| entry.strip_prefix(name)?.strip_prefix('='));
    Some(Process {
        pid,
        go: language::built_by_go(Path::new(&format!("/proc/{pid}/exe"))),
        // a script with a `#!` line: the interpreter determines the language, the script stays an argument
        command: match program.as_deref().and_then(|program| program.file_name()?.to_str()) {
            Some(real) if program_sdk(&[real.to_owned()]).is_some() && program_sdk(&command[..1]).is_none() => {
                [vec![real.to_owned()], command].concat()
            }
            _ => command,
        },
        folder: std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default(),
        service: variable("FAULTLOOM_SERVICE").map(str::to_owned),
        trust_file: variable("FAULTLOOM_TRUST_FILE").map(str::to_owned),
        trusted: variable("FAULTLOOM_TRUST_FILE").or(variable("FAULTLOOM_TRUST")).is_some(),
        addresses,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(command: &str, folder: &str) -> Process {
        Process {
            pid: 7,
            command: command.split(' ').map(str::to_owned).collect(),
            folder: folder.into(),
            service: None,
            trusted: false,
            trust_file: None,
            go: false,
            addresses: vec!["0.0.0.0:8001".parse().unwrap()],
        }
    }

    #[test]
    fn names_follow_from_commands() {
        for (command, folder, expected) in [
            ("/usr/bin/python3 -m shop.payment", "/srv", "payment"),
            ("/venv/bin/python /venv/bin/gunicorn -b :1 web:app", "/srv/rec", "gunicorn"),
            ("node /srv/web/server.js", "/srv/web", "web"),
            ("node billing.js", "/srv", "billing"),
            ("java -Xmx1g -jar /opt/shipping-1.2.0.jar", "/", "shipping"),
            ("/opt/rates --port 1", "/opt", "rates"),
        ] {
            assert_eq!(name(&process(command, folder)), expected, "{command}");
        }
    }

    #[test]
    fn the_entry_is_a_listener_that_answers_http() {
        let with = |command: &str, port: u16| Process {
            addresses: vec![SocketAddr::from(([127, 0, 0, 1], port))],
            ..process(command, "/srv")
        };
        let all = [with("redis-server", 1), with("python3 orders.py", 2), with("node web.js", 3), with("./static", 4)];
        let entry = |answers: &[&str]| {
            let serves_http = |address: &str| answers.contains(&address);
            from_processes(&all, &serves_http).entry.map(|entry| entry.value).unwrap_or_default()
        };
        assert_eq!(entry(&["127.0.0.1:3", "127.0.0.1:4"]), "http://127.0.0.1:3/");
        assert_eq!(entry(&["127.0.0.1:1", "127.0.0.1:4"]), "http://127.0.0.1:4/", "a cache is no entry");
        assert_eq!(entry(&[]), "http://127.0.0.1:2/", "the user corrects it");
    }

    #[test]
    fn a_server_of_frames_does_not_answer_http() {
        for (reply, expected) in
            [(&b"HTTP/1.1 404 Not Found\r\n\r\n"[..], true), (b"\0\0\x06\x04\0\0\0\0\0", false), (b"", false)]
        {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap().to_string();
            let server = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = [0; 1024];
                let _ = stream.read(&mut request);
                stream.write_all(reply).unwrap();
            });
            assert_eq!(serves_http(&address), expected);
            server.join().unwrap();
        }
    }

    #[test]
    fn own_listeners_are_left_out() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(holding(&[listener.local_addr().unwrap().port()]).is_empty());
    }
}
