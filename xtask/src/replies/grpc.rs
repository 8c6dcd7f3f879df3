//! The scripted gRPC server: the few frames of HTTP/2 that a reply needs, written by hand, because no library sends
//! broken ones. One call per connection, which may be repeated by the library.
//!
//! Steps: `headers`, `headers-cut`, `message 100 [field] [garbage] [end]` (100 bytes), `message-cut N [field]` (the
//! first N bytes of its frame), `message-rest N [field]` (the others), `message-longer N [field]` (declared N bytes
//! longer), `trailers STATUS|none [history]`, `trailers-only STATUS [history]`, `trailers-cut`, `http STATUS`, `rst
//! CODE`, `goaway`, `pause MS`, `stall`. A field or history is sent only if the request has an envelope.

use super::server::{STALL, Shared, close};
use super::{hpack, script};
use std::io::{Error, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use wire::carrier::append_field;
use wire::piece::PIECE;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const PRIORITY: u8 = 32;
const PREFACE_BYTES: usize = 24;

/// The connection's writer, shared by the thread that reads and the one that runs the script.
struct Connection {
    stream: Mutex<Writer>,
    /// Whether the client has reset the stream or closed the connection.
    is_disconnected: Mutex<bool>,
    disconnected: Condvar,
}

struct Writer {
    stream: TcpStream,
    /// Whether a frame was cut. An acknowledgment after it would be read as its rest.
    is_cut: bool,
}

impl Connection {
    fn send(&self, bytes: &[u8], is_cut: bool) -> std::io::Result<()> {
        let mut writer = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        writer.is_cut |= is_cut;
        writer.stream.write_all(bytes)
    }

    fn acknowledge(&self, kind: u8, payload: &[u8]) -> std::io::Result<()> {
        let mut writer = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        if writer.is_cut { Ok(()) } else { writer.stream.write_all(&frame(kind, ACK, 0, payload)) }
    }

    fn disconnect(&self) {
        *self.lock() = true;
        self.disconnected.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.is_disconnected.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Serves one connection until the client closes it.
pub fn answer(shared: &Arc<Shared>, mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    stream.read_exact(&mut [0; PREFACE_BYTES])?;
    let writer = Mutex::new(Writer { stream: stream.try_clone()?, is_cut: false });
    let connection =
        Arc::new(Connection { stream: writer, is_disconnected: Mutex::new(false), disconnected: Condvar::new() });
    connection.send(&frame(SETTINGS, 0, 0, &[]), false)?;
    let result = read_frames(shared, &mut stream, &connection);
    connection.disconnect();
    result
}

fn read_frames(shared: &Arc<Shared>, stream: &mut TcpStream, connection: &Arc<Connection>) -> std::io::Result<()> {
    let mut request = hpack::Request::default();
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head)?;
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        stream.read_exact(&mut payload)?;
        let (kind, flags) = (head[3], head[4]);
        let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        match kind {
            SETTINGS if flags & ACK == 0 => connection.acknowledge(SETTINGS, &[])?,
            PING if flags & ACK == 0 => connection.acknowledge(PING, &payload)?,
            RST_STREAM => connection.disconnect(),
            HEADERS => {
                let skipped = usize::from(flags & PADDED != 0) + if flags & PRIORITY != 0 { 5 } else { 0 };
                let received = hpack::request(payload.get(skipped..).unwrap_or_default());
                request = received.ok_or_else(|| Error::other("the fields do not follow the format"))?.or(request);
            }
            _ => {}
        }
        if (kind == HEADERS || kind == DATA) && flags & END_STREAM != 0 {
            let (shared, connection) = (shared.clone(), connection.clone());
            let request = request.clone();
            std::thread::spawn(move || drop(run(&shared, &connection, id, &request)));
        }
    }
}

/// Fails if a text is not a step.
pub fn check(text: &str) -> Result<(), String> {
    let words: Vec<&str> = text.split(' ').collect();
    let is_step = match words[..] {
        ["pause", ms] => ms.parse::<u64>().is_ok(),
        ["stall"] => true,
        _ => step(&words, 1, None).is_some(),
    };
    if is_step { Ok(()) } else { Err(format!("'{text}' is not a step")) }
}

/// Sends the reply of a request's case.
fn run(shared: &Shared, connection: &Connection, id: u32, request: &hpack::Request) -> std::io::Result<()> {
    let history = shared.count_grpc(request.envelope.as_deref()).map(script::history);
    let is_stream = request.path.starts_with("/stream/");
    let carried = history.map(|history| if is_stream { last_piece(&history) } else { history });
    for text in &shared.case.reply {
        let words: Vec<&str> = text.split(' ').collect();
        let number = words.get(1).and_then(|word| word.parse().ok()).unwrap_or(0);
        if words[0] == "pause" {
            std::thread::sleep(Duration::from_millis(number));
        } else if words[0] == "stall" {
            let waited = connection.disconnected.wait_timeout_while(connection.lock(), STALL, |is| !*is);
            drop(waited.map_err(|_| Error::other("poisoned"))?);
        } else {
            let sent = step(&words, id, carried.as_deref());
            let sent = sent.ok_or_else(|| Error::other(format!("'{text}' is not a step")))?;
            connection.send(&sent, matches!(words[0], "headers-cut" | "trailers-cut"))?;
        }
    }
    let stream = connection.stream.lock().unwrap_or_else(PoisonError::into_inner).stream.try_clone()?;
    close(&stream)
}

/// The whole history of a stream as one piece.
fn last_piece(history: &[u8]) -> Vec<u8> {
    [&[PIECE, 1, 0], history].concat()
}

fn step(words: &[&str], id: u32, history: Option<&[u8]>) -> Option<Vec<u8>> {
    let number: usize = words.get(1).and_then(|word| word.parse().ok()).unwrap_or(0);
    let has = |word: &str| words.contains(&word);
    let headers = |fields: &[(&str, String)], flags| frame(HEADERS, END_HEADERS | flags, id, &hpack::fields(fields));
    let ok = (":status", "200".to_owned());
    let kind = ("content-type", "application/grpc".to_owned());
    let mut trailers = Vec::new();
    if let Some(status) = words.get(1).filter(|status| **status != "none") {
        trailers.push(("grpc-status", (*status).to_owned()));
    }
    if let Some(history) = history.filter(|_| has("history")) {
        trailers.push(("x-faultloom-bin", base64(history)));
    }
    Some(match words[0] {
        "headers" => headers(&[ok, kind], 0),
        "headers-cut" => headers(&[ok, kind], 0)[..14].to_vec(),
        "message" => frame(DATA, if has("end") { END_STREAM } else { 0 }, id, &message(100, 0, words, history)),
        "message-cut" => {
            let all = message(100, 0, words, history);
            frame(DATA, 0, id, &all[..number.min(all.len() - 1)])
        }
        "message-rest" => frame(DATA, 0, id, &message(100, 0, words, history)[number..]),
        "message-longer" => frame(DATA, 0, id, &message(100, number, words, history)),
        "trailers" => headers(&trailers, END_STREAM),
        "trailers-cut" => headers(&[("grpc-status", "0".to_owned())], END_STREAM)[..12].to_vec(),
        "trailers-only" => headers(&[&[ok, kind], &trailers[..]].concat(), END_STREAM),
        "http" => headers(&[(":status", words[1].to_owned())], END_STREAM),
        "rst" => frame(RST_STREAM, 0, id, &(number as u32).to_be_bytes()),
        "goaway" => frame(GOAWAY, 0, 0, &[0; 8]),
        _ => return None,
    })
}

/// A protobuf message of `bytes` bytes with one field, after a prefix that declares `more` bytes in addition.
fn message(bytes: usize, more: usize, words: &[&str], history: Option<&[u8]>) -> Vec<u8> {
    let text = bytes - 2;
    let mut message = vec![0x0A, text as u8];
    message.extend((0..text).map(|i| b'a' + (i % 26) as u8));
    if words.contains(&"garbage") {
        message.fill(0xFF);
    }
    if let Some(history) = history.filter(|_| words.contains(&"field")) {
        message = append_field(&message, history);
    }
    let declared = ((message.len() + more) as u32).to_be_bytes();
    [&[0], &declared[..], &message].concat()
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD_NO_PAD.encode(bytes)
}
