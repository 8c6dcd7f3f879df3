//! Debian's dnscache (djbdns), as it is: datagrams from clients, datagrams to upstream servers, and time that passes.

use crate::run::{Completed, Folder, Run, installed};
use model::replay::{Answer, InputTrace, Listener};
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

/// A question for an address.
fn question(id: u16, name: &str, recursive: bool) -> Vec<u8> {
    let mut bytes = id.to_be_bytes().to_vec();
    bytes.extend([u8::from(recursive), 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    for part in name.split('.') {
        bytes.push(part.len() as u8);
        bytes.extend(part.as_bytes());
    }
    bytes.extend([0, 0, 1, 0, 1]);
    bytes
}

/// An answer of the zone's server.
fn zone(name: &str, address: [u8; 4]) -> Answer {
    let query = question(0, name, false);
    let mut answer = vec![0, 0, 0x84, 0, 0, 1, 0, 1, 0, 0, 0, 0];
    answer.extend(&query[12..]);
    answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 1, 44, 0, 4]);
    answer.extend(address);
    Answer { server: Some(SERVER), query, answer }
}

fn run(program: &Path) -> Run {
    let root = Folder::new();
    for part in ["servers", "ip"] {
        std::fs::create_dir(root.join(part)).expect("a folder can be made");
    }
    std::fs::write(root.join("servers/@"), format!("{SERVER}\n")).expect("a file can be written");
    std::fs::write(root.join("ip/127.0.0.1"), "").expect("a file can be written");
    let settings = [
        ("ROOT", root.text()),
        ("IP", "127.0.0.1"),
        ("IPSEND", "0.0.0.0"),
        ("CACHESIZE", "1000000"),
        ("UID", "1"),
        ("GID", "1"),
    ];
    let environment = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    Run { environment, stdin: vec![7; 128], folder: Some(Arc::new(root)), ..Run::new(program, &[]) }
}

/// The reply's code, and its last four bytes: the address.
fn reply(ran: &Completed, connection: u32) -> (u8, [u8; 4]) {
    let bytes = ran.records().streams.remove(&connection).expect("it was answered");
    assert_eq!(bytes.len(), 2 + usize::from(u16::from_be_bytes([bytes[0], bytes[1]])), "one datagram");
    (bytes[5] & 15, *bytes.last_chunk().expect("an answer is longer"))
}

#[test]
fn names_are_resolved_cached_and_given_up_in_no_time() {
    let Some(program) = installed("dnscache") else { return };
    let mut trace = InputTrace {
        answers: vec![zone("a.example", [192, 0, 2, 1]), zone("b.example", [192, 0, 2, 2])],
        ..InputTrace::default()
    };
    (0..4).for_each(|connection| trace.connect(connection, Listener::Udp(53)));
    trace.send(0, question(7, "a.example", true));
    trace.send(1, question(8, "b.example", true));
    trace.send(2, question(9, "lost.example", true)); // no answer in the trace
    trace.send(3, question(10, "a.example", true));
    trace.wait(120_000); // longer than dnscache tries
    let begin = Instant::now();
    let ran = run(&program).replay(&trace).well();
    assert!(begin.elapsed().as_secs() < 20, "virtual time took real time");
    assert_eq!(reply(&ran, 0), (0, [192, 0, 2, 1]));
    assert_eq!(reply(&ran, 1), (0, [192, 0, 2, 2]));
    assert_eq!(reply(&ran, 2).0, 2, "the server failed");
    assert_eq!(reply(&ran, 3), (0, [192, 0, 2, 1]));
    assert!(ran.stderr.contains("cached 1 a.example."), "{}", ran.stderr);
    assert!(ran.bytes == run(&program).replay(&trace).well().bytes);
}

#[test]
fn without_the_wait_a_lost_question_stays_open() {
    let Some(program) = installed("dnscache") else { return };
    let mut trace = InputTrace { answers: vec![zone("a.example", [192, 0, 2, 1])], ..InputTrace::default() };
    (0..2).for_each(|connection| trace.connect(connection, Listener::Udp(53)));
    trace.send(0, question(1, "lost.example", true));
    trace.send(1, question(2, "a.example", true));
    let ran = run(&program).replay(&trace).well();
    assert_eq!(ran.records().streams.into_keys().collect::<Vec<_>>(), [1]);
}
