//! Debian's memcached, as it is.

use crate::run::{Completed, Folder, Run, installed};
use model::replay::{InputTrace, Listener, Step};
use replay::memcached_input::{self, Load};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);

/// As few threads in the background as it can do with.
const QUIET: [&str; 8] = ["-U", "0", "-l", "127.0.0.1", "-m", "2", "-o", "no_modern,no_hashexpand"];

fn run(program: &Path, threads: u32) -> Run {
    let threads = threads.to_string();
    Run::new(program, &[&QUIET[..], &["-t", &threads]].concat())
}

fn conversation(sends: &[(u32, &[u8])]) -> InputTrace {
    let mut trace = InputTrace::default();
    let last = sends.iter().map(|(connection, _)| *connection).max().unwrap_or(0);
    (0..=last).for_each(|connection| trace.connect(connection, Listener::Any));
    sends.iter().for_each(|(connection, bytes)| trace.send(*connection, *bytes));
    trace
}

/// The same server over real sockets, each command answered before the next is sent.
struct Real {
    server: Child,
    connections: BTreeMap<u32, BufReader<TcpStream>>,
    port: u16,
}

impl Real {
    /// On a port that it chooses and writes to a file.
    fn start(program: &Path, threads: u32) -> Real {
        let folder = Folder::new();
        let port_file = folder.join("port");
        let mut command = Command::new(program);
        command.args(QUIET).args(["-t", &threads.to_string(), "-p", "-1", "-u", "root"]);
        command.env("MEMCACHED_PORT_FILENAME", &port_file).stdin(Stdio::null()).stderr(Stdio::null());
        let server = command.spawn().expect("memcached can be run");
        let mut real = Real { server, connections: BTreeMap::new(), port: 0 };
        let begin = Instant::now();
        while real.port == 0 {
            assert!(begin.elapsed() < PATIENCE, "memcached has not written its port");
            std::thread::sleep(Duration::from_millis(5));
            let text = std::fs::read_to_string(&port_file).unwrap_or_default();
            real.port = text.trim().strip_prefix("TCP INET: ").and_then(|port| port.parse().ok()).unwrap_or(0);
        }
        real
    }

    fn connect(&mut self, connection: u32) {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("memcached listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
        self.connections.insert(connection, BufReader::new(stream));
    }

    /// One command, and its whole reply.
    fn request(&mut self, connection: u32, command: &[u8]) -> Vec<u8> {
        let stream = self.connections.get_mut(&connection).expect("it was opened");
        stream.get_mut().write_all(command).expect("memcached reads");
        let mut reply = Vec::new();
        loop {
            let from = reply.len();
            stream.read_until(b'\n', &mut reply).expect("memcached answers");
            let line = String::from_utf8_lossy(&reply[from..]).into_owned();
            let Some(value) = line.strip_prefix("VALUE ") else { return reply };
            let bytes: usize = value.split_whitespace().nth(2).and_then(|bytes| bytes.parse().ok()).expect("a length");
            let mut data = vec![0; bytes + 2];
            stream.read_exact(&mut data).expect("memcached answers whole");
            reply.extend(data);
        }
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn over_sockets(program: &Path, threads: u32, trace: &InputTrace) -> BTreeMap<u32, Vec<u8>> {
    let mut real = Real::start(program, threads);
    let mut output: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
    for step in &trace.steps {
        match step {
            Step::Connect { connection, .. } => real.connect(*connection),
            Step::Send { connection, bytes } => {
                let reply = real.request(*connection, bytes);
                output.entry(*connection).or_default().extend(reply);
            }
            Step::Close { .. } | Step::Wait { .. } => {}
        }
    }
    output
}

fn statistic(ran: &Completed, connection: u32, name: &str) -> u64 {
    let output = ran.output(connection);
    let line = output.lines().find_map(|line| line.strip_prefix(&format!("STAT {name} "))).expect("it is printed");
    line.parse().expect("a number")
}

#[test]
fn replies_are_those_of_a_memcached_over_real_sockets() {
    let Some(program) = installed("memcached") else { return };
    let load = Load::default();
    let trace = memcached_input::trace(&load);
    for threads in [1, 4] {
        let expected = over_sockets(&program, threads, &trace);
        let ran = run(&program, threads).replay(&trace).well();
        let records = ran.records();
        assert_eq!(records.count, u64::from(load.commands), "each reply is one record");
        assert_eq!(records.streams.len(), expected.len());
        for (connection, output) in &expected {
            assert!(records.streams[connection] == *output, "{threads} threads: connection {connection} differs");
        }
    }
}

#[test]
fn the_same_bytes_come_each_time() {
    let Some(program) = installed("memcached") else { return };
    let trace = memcached_input::trace(&Load { seed: 5, ..Load::default() });
    for threads in [1, 4] {
        for width in [1, 3] {
            let once = run(&program, threads).width(width).replay(&trace).well();
            assert!(!once.bytes.is_empty());
            for _ in 0..3 {
                let again = run(&program, threads).width(width).replay(&trace).well();
                assert!(once.bytes == again.bytes, "{threads} threads, width {width}");
            }
        }
    }
}

#[test]
fn stock_settings_with_all_threads_work_as_well() {
    let Some(program) = installed("memcached") else { return };
    let mut trace = memcached_input::trace(&Load { seed: 6, connections: 8, ..Load::default() });
    trace.wait(5_000); // its background threads do some rounds
    let stock = Run::new(&program, &["-m", "2"]);
    let once = stock.replay(&trace).well();
    assert_eq!(once.records().streams.len(), 8);
    assert!(once.bytes == stock.replay(&trace).well().bytes);
}

#[test]
fn the_load_evicts() {
    let Some(program) = installed("memcached") else { return };
    let mut trace = memcached_input::trace(&Load { commands: 1_200, ..Load::default() });
    trace.connect(99, Listener::Any);
    trace.send(99, "stats\r\n");
    let ran = run(&program, 1).replay(&trace).well();
    assert!(statistic(&ran, 99, "evictions") > 20);
    assert!(statistic(&ran, 99, "cmd_set") > 400);
    assert!(statistic(&ran, 99, "incr_hits") > 20);
    assert!(statistic(&ran, 99, "delete_hits") > 20);
    assert_eq!(statistic(&ran, 99, "total_connections"), 6); // its listener counts
}

#[test]
fn pipelined_and_split_commands_are_whole() {
    let Some(program) = installed("memcached") else { return };
    let trace = conversation(&[
        (0, b"set a 0 0 3\r\nabc\r\nget a\r\nget b\r\n"),
        (1, b"set spl"),
        (0, b"get a\r\n"),
        (1, b"it 0 0 10\r\n01234"),
        (0, b"delete a\r\n"),
        (1, b"56789\r\nget split"),
        (1, b"\r\n"),
    ]);
    let ran = run(&program, 1).replay(&trace).well();
    let value = "VALUE a 0 3\r\nabc\r\nEND\r\n";
    assert_eq!(ran.output(0), format!("STORED\r\n{value}END\r\n{value}DELETED\r\n"));
    assert_eq!(ran.output(1), "STORED\r\nVALUE split 0 10\r\n0123456789\r\nEND\r\n");
}

#[test]
fn meta_and_binary_commands_pass() {
    let Some(program) = installed("memcached") else { return };
    // binary: set k = v, then get k
    let header = |code: u8, key: u16, extras: u8, body: u32| {
        let mut bytes = vec![0x80, code];
        bytes.extend(key.to_be_bytes());
        bytes.extend([extras, 0, 0, 0]);
        bytes.extend(body.to_be_bytes());
        bytes.extend([0; 12]);
        bytes
    };
    let set = [header(1, 1, 8, 10), vec![0; 8], b"kv".to_vec()].concat();
    let get = [header(0, 1, 0, 1), b"k".to_vec()].concat();
    let trace = conversation(&[(0, b"ms k 2\r\nxy\r\nmg k v\r\nmn\r\n"), (1, &set), (1, &get)]);
    let ran = run(&program, 4).replay(&trace).well();
    assert_eq!(ran.output(0), "HD\r\nVA 2\r\nxy\r\nMN\r\n");
    let binary = ran.records().streams.remove(&1).expect("it answered");
    assert_eq!((binary.len(), binary[24], binary.last()), (24 + 24 + 4 + 1, 0x81, Some(&b'v')));
}

#[test]
fn other_seeds_run_threads_in_other_orders_and_lose_nothing() {
    let Some(program) = installed("memcached") else { return };
    // each connection has its own keys, so its output does not depend on the others
    let mut sends = Vec::new();
    for round in 0..40 {
        for connection in 0..4u32 {
            sends.push((
                connection,
                format!("set {connection}:{round} 0 0 2\r\n{round:02}\r\nget {connection}:{round}\r\n"),
            ));
        }
    }
    let sends: Vec<(u32, &[u8])> = sends.iter().map(|(connection, text)| (*connection, text.as_bytes())).collect();
    let trace = conversation(&sends);
    let streams = |ran: &Completed| ran.records().streams;
    let first = run(&program, 4).width(4).replay(&trace).well();
    let mut orders = std::collections::BTreeSet::from([first.bytes.clone()]);
    for seed in 1..6 {
        let ran = run(&program, 4).width(4).seed(seed).replay(&trace).well();
        assert_eq!(streams(&ran), streams(&first), "seed {seed}");
        assert!(ran.bytes == run(&program, 4).width(4).seed(seed).replay(&trace).well().bytes, "seed {seed}");
        orders.insert(ran.bytes);
    }
    assert!(orders.len() > 1, "all seeds gave one order");
}
