//! Drivers: one service per language, which calls the scripted server with each of its client libraries.
//!
//! A driver prints `ready PORT LIBRARY …`, where the port serves HTTP, and exits when its standard input is closed.
//! `GET /LIBRARY/METHODS/TIMEOUT_MS/CANCEL_MS/HOST:PORT/…` makes one call to `HOST:PORT/…` for each of the methods,
//! which are separated by commas, one after the other with one client. A POST has the body `ping`. It returns a JSON
//! array with an object for each call: `{"status":N,"bytes":HEX,"error":TYPE}` with the status (0: none), the bytes
//! that were read before the error, and the type of the error, empty if there was none; or `{"unsupported":true}` if
//! the library has no way to set that limit or to cancel. With an envelope in the request, the call belongs to a traced
//! request.

use super::case::Case;
use crate::setup;
use crate::shell::{command, quiet, root};
use serde::Deserialize;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A call that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(8);

pub struct Driver {
    pub language: &'static str,
    pub libraries: Vec<String>,
    port: u16,
    child: Child,
}

/// What an application observed.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Observed {
    #[serde(default)]
    pub unsupported: bool,
    #[serde(default)]
    pub status: i64,
    /// In hexadecimal.
    #[serde(default)]
    pub bytes: String,
    #[serde(default)]
    pub error: String,
    #[serde(skip)]
    pub ms: u64,
    /// What it observed of the second call.
    #[serde(skip)]
    pub then: Option<Box<Observed>>,
}

/// Builds what the driver of a language needs, and returns its command.
fn program(language: &str) -> Result<Command, String> {
    let path = |p: &str| root().join(p).to_string_lossy().into_owned();
    Ok(match language {
        "go" => {
            let program = path("out/replies/go");
            let build = ["build", "-o", &program, "./internal/replies"];
            quiet(command("go", &build).current_dir(root().join("sdk/go")))?;
            command(&program, &[])
        }
        "java" => {
            setup::build_agent()?;
            let agent = format!("-javaagent:{}", path("sdk/java/agent/target/faultloom-agent.jar"));
            let list = path("sdk/java/agent/target/test-classpath.txt");
            let jars = std::fs::read_to_string(&list).map_err(|e| format!("{list}: {e}"))?;
            let classes = format!("{}:{}", path("sdk/java/agent/target/test-classes"), jars.trim());
            command("java", &["-XX:TieredStopAtLevel=1", &agent, "-cp", &classes, "example.peer.ReplyDriver"])
        }
        "node" => {
            setup::build_node_sdk()?;
            let register = path("sdk/typescript/register.js");
            command("node", &["--require", &register, &path("sdk/typescript/test/apps/replies.js")])
        }
        "python" => {
            setup::venv("out/python-sdk", "sdk/python/requirements-test.txt")?;
            let mut python = command(&path("out/python-sdk/bin/python"), &[&path("sdk/python/tests/apps/replies.py")]);
            python.env("PYTHONPATH", path("sdk/python/src/faultloom/boot"));
            python
        }
        other => return Err(format!("there is no driver for '{other}'")),
    })
}

impl Driver {
    /// Starts the driver and waits until it serves. Its standard error goes to `out/replies/LANGUAGE.log`.
    pub fn start(language: &'static str, trust: &str) -> Result<Driver, String> {
        let log = root().join("out/replies").join(format!("{language}.log"));
        let failed = |e: std::io::Error| format!("{}: {e}", log.display());
        std::fs::create_dir_all(root().join("out/replies")).map_err(failed)?;
        let errors = std::fs::File::create(&log).map_err(failed)?;
        let mut program = program(language)?;
        program.env("FAULTLOOM_TRUST", trust).env("FAULTLOOM_SERVICE", "driver").env("FAULTLOOM_WEBFLUX", "on");
        program.env_remove("FAULTLOOM_TRUST_FILE");
        let mut child = program
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .map_err(|e| format!("the driver of {language}: {e}"))?;
        let mut line = String::new();
        let read = child.stdout.take().map(|out| BufReader::new(out).read_line(&mut line));
        let mut words = line.split_whitespace();
        let port = match (read, words.next(), words.next().and_then(|port| port.parse().ok())) {
            (Some(Ok(_)), Some("ready"), Some(port)) => port,
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                let errors = std::fs::read_to_string(&log).unwrap_or_default();
                return Err(format!("the driver of {language} did not start: {line}{errors}"));
            }
        };
        Ok(Driver { language, libraries: words.map(str::to_owned).collect(), port, child })
    }

    /// Makes one call. `target` begins with `HOST:PORT`; `envelope` is the header's value.
    pub fn call(&self, library: &str, case: &Case, target: &str, envelope: Option<&str>) -> Result<Observed, String> {
        let Case { timeout_ms, cancel_ms, method, .. } = case;
        let methods = if case.then.is_empty() { method.clone() } else { format!("{method},{method}") };
        let begin = Instant::now();
        let header = envelope.map(|value| format!("x-faultloom: {value}\r\n")).unwrap_or_default();
        let request = format!(
            "GET /{library}/{methods}/{timeout_ms}/{cancel_ms}/{target} HTTP/1.1\r\nhost: driver\r\nconnection: close\r\n{header}\r\n"
        );
        let failed = |e: std::io::Error| format!("the driver of {}: {e}", self.language);
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).map_err(failed)?;
        stream.set_read_timeout(Some(LIMIT)).map_err(failed)?;
        stream.write_all(request.as_bytes()).map_err(failed)?;
        let mut reply = Vec::new();
        let is_hang = match stream.read_to_end(&mut reply) {
            Ok(_) => false,
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => true,
            Err(e) => return Err(failed(e)),
        };
        let ms = u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX);
        let text = String::from_utf8_lossy(&reply).into_owned();
        // the array is the only thing in brackets, whatever the framing of the reply is
        let array = text.find('[').zip(text.rfind(']')).map(|(from, to)| &text[from..=to]);
        match array {
            Some(array) => {
                let calls: Vec<Observed> =
                    serde_json::from_str(array).map_err(|e| format!("{library}: {e}: {text}"))?;
                let mut calls = calls.into_iter();
                let first = calls.next().ok_or_else(|| format!("{library}: no call was made"))?;
                Ok(Observed { ms, then: calls.next().map(Box::new), ..first })
            }
            None if is_hang => Ok(Observed { error: "hang".into(), ms, ..Observed::default() }),
            None => Err(format!("the driver of {} returned for {library}: {text}", self.language)),
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let deadline = Instant::now() + Duration::from_secs(5);
        while Instant::now() < deadline {
            if let Ok(Some(_)) = self.child.try_wait() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
