//! A service inside the test that uses the reference implementation as an SDK does: it accepts envelopes, records a
//! call to `stock` (which a fault may fail), answers 500 if that call failed, and returns its history.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use model::trace::Protocol;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use wire::accept::Receiver;
use wire::history;
use wire::scope::{CallEnd, Scope};
use wire::trust::Trust;
use wire::{call_id, carrier};

pub const TRUST: &str = "environment in-process\n\
key trace t1 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n\
key fault f1 202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f\n\
faults on\n";

/// Requests to paths below it are handled as by a service without route templates: it calls `mail` at [`SECRET_CALL`]
/// and replies with a body that depends on that call.
pub const SECRET_PATHS: &str = "/reset/";
pub const SECRET_CALL: &str = "GET /token/SECRETtokenABCDEF/user/anna@secret.example";

/// The path of a request, among its headers.
const PATH: &str = ":path";

/// A call whose name is not UTF-8.
const UNREADABLE_EVENT: &[u8] = &[1, 0, 0, 2, 0xff, 0xfe, 1];
/// A call to `x`, and one more.
const FIRST_EVENT: &[u8] = &[1, 0, 0, 1, b'x', 1];
const EVENT: &[u8] = &[1, 0, 1, 1];

pub type Headers = HashMap<String, String>;

/// Ends with the test's process; its connections end with their clients.
pub struct Service {
    pub url: String,
    /// The headers of its requests in order, by lower-case name.
    pub requests: Arc<Mutex<Vec<Headers>>>,
}

impl Service {
    pub fn start() -> Service {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/orders", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let log = requests.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let log = log.clone();
                std::thread::spawn(move || serve(&stream, &log));
            }
        });
        Service { url, requests }
    }

    pub fn last(&self) -> Headers {
        self.requests.lock().unwrap().last().cloned().expect("a request was received")
    }
}

fn serve(stream: &TcpStream, log: &Mutex<Vec<Headers>>) {
    let mut reader = BufReader::new(stream);
    while let Some(headers) = read(&mut reader) {
        log.lock().unwrap().push(headers.clone());
        let reply = match headers.get("x-faultloom") {
            Some(envelope) => with_history(envelope, &headers[PATH]),
            None => b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_vec(),
        };
        let mut out = stream;
        if out.write_all(&reply).is_err() {
            return;
        }
    }
}

/// The next request's headers, or None at the end of the connection.
fn read(reader: &mut BufReader<&TcpStream>) -> Option<Headers> {
    let mut headers = Headers::new();
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|n| *n > 0)?;
    headers.insert(PATH.to_owned(), line.split(' ').nth(1).unwrap_or_default().to_owned());
    loop {
        line.clear();
        reader.read_line(&mut line).ok().filter(|n| *n > 0)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").and_then(|n| n.parse().ok()).unwrap_or(0);
    reader.take(length).read_to_end(&mut Vec::new()).ok()?;
    Some(headers)
}

/// A reply with the history of two calls. The path `/unreadable-child` has a history in it that cannot be read,
/// `/endless-child` one that is too long, and `/unreadable` is itself such a history.
fn with_history(envelope: &str, path: &str) -> Vec<u8> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let mut receiver = Receiver::new(Trust::parse(TRUST).unwrap());
    let envelope = receiver.accept_header(envelope, now.as_secs(), 0).unwrap();
    let mut scope = Scope::new("web", &envelope, now.as_micros() as u64, true);
    let call = scope.begin_call(Protocol::Grpc, "stock", "/shop.Stock/Get", 100);
    let fault = call.fault.is_some();
    if fault {
        scope.record_failure(CallEnd { call: call.number, status: 14, history: None, gap: false }, 150);
    } else {
        let mut inner = envelope.clone();
        inner.hop.call = call_id::derive(envelope.hop.call, call.number);
        let mut stock = Scope::new("stock", &inner, now.as_micros() as u64 + 200, true);
        stock.finish(0, 300);
        let mut history = stock.history("");
        match path {
            "/unreadable-child" => history = [&stock.head("")[..], UNREADABLE_EVENT].concat(),
            "/endless-child" => {
                history = [&stock.head("")[..], FIRST_EVENT, &EVENT.repeat(history::EVENTS_MAX)].concat();
            }
            _ => {}
        }
        scope.record_reply(CallEnd { call: call.number, status: 0, history: Some(&history), gap: false }, 700);
    }
    let call = scope.begin_call(Protocol::Http, "images:80", "GET /logo.png", 800);
    scope.record_reply(CallEnd { call: call.number, status: 200, history: None, gap: true }, 900);
    if path.starts_with(SECRET_PATHS) {
        return with_secrets(scope, path);
    }
    let status = if fault { 500 } else { 200 };
    scope.finish(status, 1000);
    let history = match path {
        "/unreadable" => [&scope.head("")[..], UNREADABLE_EVENT].concat(),
        _ => scope.history("GET /orders"),
    };
    if history.len() > carrier::HEADER_BYTES_MAX {
        let tail = carrier::append_tail(b"", &history);
        let mark = "x-faultloom-reply: tail";
        let head = format!("HTTP/1.1 {status} x\r\ncontent-length: {}\r\n{mark}\r\n\r\n", tail.len());
        return [head.as_bytes(), &tail].concat();
    }
    let history = URL_SAFE_NO_PAD.encode(history);
    format!("HTTP/1.1 {status} x\r\ncontent-length: 0\r\nx-faultloom-history: {history}\r\n\r\n").into_bytes()
}

fn with_secrets(mut scope: Scope, path: &str) -> Vec<u8> {
    let call = scope.begin_call(Protocol::Http, "mail", SECRET_CALL, 910);
    let body = match call.fault.is_some() {
        true => {
            scope.record_failure(CallEnd { call: call.number, status: 14, history: None, gap: false }, 920);
            r#"{"user":"SECRETother"}"#
        }
        false => {
            scope.record_reply(CallEnd { call: call.number, status: 200, history: None, gap: true }, 920);
            r#"{"user":"SECRETvalue"}"#
        }
    };
    scope.finish(200, 1000);
    let route = format!("GET {}", path.split('?').next().unwrap_or_default());
    let history = URL_SAFE_NO_PAD.encode(scope.history(&route));
    let length = body.len();
    format!("HTTP/1.1 200 x\r\ncontent-length: {length}\r\nx-faultloom-history: {history}\r\n\r\n{body}").into_bytes()
}
