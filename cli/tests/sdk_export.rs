//! Histories that an SDK exports are imported as a run: two Python services, the first of which samples every request.

use crate::support::processes::ChildProcess;
use crate::support::service::TRUST;
use crate::support::{Home, repository, skipped};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Answers one request, after a call to the service of its argument, then ends.
const APP: &str = r#"
import faultloom.auto
import http.client, sys
from wsgiref.simple_server import WSGIRequestHandler, make_server
from faultloom.wsgi import Middleware

def app(environ, start_response):
    if len(sys.argv) > 1:
        peer = http.client.HTTPConnection(sys.argv[1])
        peer.request("GET", "/stock/17")
        peer.getresponse().read()
    start_response("200 OK", [("content-length", "2")])
    return [b"ok"]

class Quiet(WSGIRequestHandler):
    def log_message(self, *arguments): pass

server = make_server("127.0.0.1", 0, Middleware(app), handler_class=Quiet)
server.timeout = 60
print(server.server_port, flush=True)
server.handle_request()
"#;

struct Service {
    _process: ChildProcess,
    port: u16,
}

impl Service {
    fn start(name: &str, peer: Option<&Service>, settings: &[(&str, &str)]) -> Service {
        let python_path: PathBuf = repository().join("sdk/python/src");
        let mut command = Command::new("python3");
        command.args(["-c", APP]).args(peer.map(|p| format!("127.0.0.1:{}", p.port)));
        command
            .env("PYTHONPATH", python_path)
            .env("FAULTLOOM_SERVICE", name)
            .env("FAULTLOOM_TRUST", TRUST.replace('\n', ";"));
        command.envs(settings.iter().copied()).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = ChildProcess::start(&mut command);
        let mut line = String::new();
        BufReader::new(process.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().parse().unwrap_or_else(|_| panic!("{name} says {line:?}"));
        Service { _process: process, port }
    }
}

/// Receives one POST, answers it, and sends its head and body to the channel.
fn collector() -> (u16, mpsc::Receiver<(String, String)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(&stream);
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            if let Some(n) = line.to_lowercase().strip_prefix("content-length:") {
                length = n.trim().parse().unwrap();
            }
            if line.trim().is_empty() {
                break;
            }
            head += &line.to_lowercase();
        }
        let mut body = String::new();
        reader.take(length).read_to_string(&mut body).unwrap();
        (&stream).write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}").unwrap();
        send.send((head, body)).unwrap();
    });
    (port, receive)
}

#[test]
fn a_history_exported_by_an_sdk_is_imported_completely() {
    if Command::new("python3").arg("--version").stdout(Stdio::null()).status().is_err() {
        skipped("python3 is not installed");
        return;
    }
    let home = Home::new("sdk-export");
    let (port, received) = collector();
    let stock = Service::start("stock", None, &[]);
    let endpoint = format!("http://127.0.0.1:{port}/v1/traces");
    let web = Service::start("web", Some(&stock), &[("FAULTLOOM_SAMPLE", "1/1"), ("FAULTLOOM_EXPORT", &endpoint)]);

    let mut client = TcpStream::connect(("127.0.0.1", web.port)).unwrap();
    client.write_all(b"GET /orders HTTP/1.0\r\nhost: web\r\n\r\n").unwrap();
    let mut reply = String::new();
    client.read_to_string(&mut reply).unwrap();
    assert!(reply.contains("200 OK") && !reply.to_lowercase().contains("x-faultloom"), "{reply}");

    let (head, body) = received.recv_timeout(Duration::from_secs(30)).expect("an export");
    assert!(head.starts_with("post /v1/traces ") && head.contains("content-type: application/json"), "{head}");
    let file = home.write("exported.json", &body).display().to_string();
    let json = home.run(&["import", &file, "--json"]).exits(0).json();
    assert_eq!((&json["verdict"], &json["notices"]), (&"pass".into(), &serde_json::json!([])), "{body}");
    assert_eq!(json["summary"]["services"], serde_json::json!(["web", "stock"]));
    assert_eq!((&json["summary"]["calls"], &json["summary"]["gaps"]), (&1.into(), &0.into()));
    home.run(&["show"]).exits(0).says("GET /orders").says("GET /stock/{id}");
    let back = home.run(&["export"]).exits(0).json();
    assert_eq!(back, serde_json::from_str::<serde_json::Value>(&body).unwrap(), "exported again, it is the same");
}
