//! Both ends of the load generator count the same connections: their counts are the reference for those of a tracer.

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_connections");

fn json(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))
}

#[test]
fn a_storm_opens_as_many_connections_as_the_server_accepts() {
    let mut server = Command::new(PROGRAM)
        .args(["serve", "--address", "127.0.10.1"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let port = json(&lines.next().unwrap().unwrap())["port"].to_string();
    for arguments in [&["--count", "50"][..], &["--count", "3", "--process-each"]] {
        let storm = ["storm", "--port", &port, "--addresses", "1"];
        let run = Command::new(PROGRAM).args(storm).args(arguments).output().unwrap();
        let counts = json(&String::from_utf8_lossy(&run.stdout));
        assert_eq!((&counts["opened"], counts["failed"].as_u64()), (&counts["answered"], Some(0)), "{counts}");
        assert!(counts["total_us_p50"].as_f64().is_some_and(|us| us > 0.0), "{counts}");
    }
    drop(server.stdin.take()); // ends the server
    assert_eq!(json(&lines.next().unwrap().unwrap())["accepted"], 53);
    assert!(server.wait().unwrap().success());
}
