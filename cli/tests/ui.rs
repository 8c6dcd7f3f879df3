//! `faultloom ui`, as a browser uses it: who may read, what it answers, what a foreign page gets.

use crate::support::{Home, Started, wait_for};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(60);

/// A running workbench, and the session that a page would have.
struct Workbench {
    started: Started,
    port: u16,
    token: String,
}

struct Reply {
    status: u16,
    head: String,
    body: String,
}

impl Reply {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.body))
    }
}

impl Workbench {
    fn start(home: &Home, arguments: &[&str]) -> Workbench {
        let started = home.start(&[&["ui", "--json"], arguments].concat());
        let address = addresses(&started, 1).remove(0);
        let (port, token) = parts(&address);
        Workbench { started, port, token }
    }

    /// Headers beyond `Host` are `Name: value`.
    fn send(&self, method: &str, path: &str, headers: &[&str], body: &str) -> Reply {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let host = format!("Host: 127.0.0.1:{}", self.port);
        let has_host = headers.iter().any(|header| header.starts_with("Host:"));
        let own = if has_host { None } else { Some(host.as_str()) };
        let lines: String = own.into_iter().chain(headers.iter().copied()).map(|line| format!("{line}\r\n")).collect();
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\n{lines}Connection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no reply: {text}"));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        Reply { status, head: head.to_lowercase(), body: body.to_owned() }
    }

    fn get(&self, path: &str, session: &str) -> Reply {
        self.send("GET", &format!("/api/v1{path}"), &[&format!("Authorization: Bearer {session}")], "")
    }

    fn open_session(&self) -> String {
        let reply = self.send("POST", "/api/v1/session", &[], &json!({"token": self.token}).to_string());
        assert_eq!(reply.status, 200, "{}", reply.body);
        reply.json()["session"].as_str().expect("a session").to_owned()
    }

    fn stop(self) -> String {
        self.started.signal("INT");
        let ended = self.started.wait().exits(0);
        ended.out + &ended.err
    }
}

/// The first addresses that were printed.
fn addresses(started: &Started, count: usize) -> Vec<String> {
    wait_for("the address of the workbench", || {
        let printed = started.out_so_far();
        let lines: Vec<&str> = printed.lines().collect();
        let of = |line: &&str| serde_json::from_str::<Value>(line).ok()?["address"].as_str().map(str::to_owned);
        let found: Vec<String> = lines.iter().filter_map(of).collect();
        (found.len() >= count).then_some(found)
    })
}

fn parts(address: &str) -> (u16, String) {
    let rest = address.strip_prefix("http://127.0.0.1:").unwrap_or_else(|| panic!("{address}"));
    let (port, token) = rest.split_once("/#token=").expect("a token in the fragment");
    (port.parse().expect("a port"), token.to_owned())
}

/// A store of version 0.1.0 with runs of every kind.
fn home_with_runs(name: &str) -> Home {
    let home = Home::new(name);
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../app/tests/stores/0.1.0-findings");
    copy(&from, &home.file(".faultloom"));
    home
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let path = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &path);
        } else {
            std::fs::copy(entry.path(), path).unwrap();
        }
    }
}

#[test]
fn a_session_reads_every_run_and_only_with_the_address() {
    let home = home_with_runs("ui-reads");
    let workbench = Workbench::start(&home, &[]);
    for (path, session) in [("/runs", ""), ("/runs", "guessed"), ("/about", &workbench.token), ("/events", "")] {
        let refused = workbench.get(path, session);
        assert_eq!(refused.status, 401, "{path}: {}", refused.body);
        assert!(refused.json()["error"]["next"].as_str().unwrap().contains("faultloom ui"));
    }
    let session = workbench.open_session();
    let again = workbench.send("POST", "/api/v1/session", &[], &json!({"token": workbench.token}).to_string());
    assert_eq!(again.status, 401, "the token is used up");
    assert!(again.json()["error"]["what"].as_str().unwrap().contains("used already"));

    let runs = workbench.get("/runs", &session).json();
    let kinds: Vec<&str> = runs["runs"].as_array().unwrap().iter().map(|run| run["kind"].as_str().unwrap()).collect();
    for kind in ["sweep", "recording", "map", "flip"] {
        assert!(kinds.contains(&kind), "{kinds:?}");
    }
    for run in runs["runs"].as_array().unwrap() {
        let id = run["id"].as_str().unwrap();
        let view = workbench.get(&format!("/runs/{id}/view"), &session);
        assert_eq!(view.status, 200, "{}", view.body);
        assert_eq!(view.json()["run"], *run);
        if run["kind"] == "sweep" {
            assert_eq!(workbench.get(&format!("/runs/{id}/cases/0"), &session).status, 200);
            let compared = workbench.get(&format!("/comparison/{id}/main/{id}/bug-1"), &session);
            assert!(compared.json()["rows"].as_u64().unwrap() > 2);
        }
    }
    let about = workbench.get("/about", &session).json();
    assert_eq!(about["allows_runs"], false);
    let document = workbench.get("/openapi", &session).json();
    assert!(document["components"]["schemas"]["run-view"].is_object());

    // the next address opens another session, and the first one stays
    let next = addresses(&workbench.started, 2).remove(1);
    let (_, token) = parts(&next);
    let second = workbench.send("POST", "/api/v1/session", &[], &json!({"token": token}).to_string());
    assert_eq!((second.status, workbench.get("/about", &session).status), (200, 200));
    let printed = workbench.stop();
    assert!(!printed.contains(&session), "a session secret is never printed");
}

#[test]
fn a_foreign_page_and_a_foreign_host_name_get_nothing() {
    let home = home_with_runs("ui-foreign");
    let workbench = Workbench::start(&home, &[]);
    let session = workbench.open_session();
    let authorized = format!("Authorization: Bearer {session}");
    let port = workbench.port;
    let own = workbench.send("GET", "/api/v1/runs", &[&authorized, &format!("Origin: http://127.0.0.1:{port}")], "");
    assert_eq!(own.status, 200);
    let foreign = ["Origin: http://127.0.0.1:1", "Origin: null", "Sec-Fetch-Site: cross-site", "Host: rebound.example"];
    for header in foreign {
        for path in ["/", "/api/v1/runs"] {
            let reply = workbench.send("GET", path, &[&authorized, header], "");
            assert_eq!(reply.status, 403, "{path} {header}");
            assert!(!reply.body.contains("runs\":["), "{}", reply.body);
            assert!(!reply.head.contains("access-control-allow-origin"));
        }
    }
    let page = workbench.send("GET", "/", &[], "");
    assert_eq!(page.status, 200);
    for header in [
        "content-security-policy: default-src 'none'; script-src 'self'",
        "referrer-policy: no-referrer",
        "x-content-type-options: nosniff",
        "cache-control: no-store",
    ] {
        assert!(page.head.contains(header), "{header}: {}", page.head);
    }
    assert!(page.body.to_lowercase().contains("<!doctype html>"));
    // a state of the page is the page, and nothing outside of it is a file
    assert_eq!(workbench.send("GET", "/r/1a2b/behaviors?sel=1", &[], "").body, page.body);
    for path in ["/assets/../Cargo.toml", "/assets/%2e%2e/%2e%2e/etc/passwd", "/assets/none.js"] {
        assert_eq!(workbench.send("GET", path, &[], "").status, 404, "{path}");
    }
    workbench.stop();
}

#[test]
fn only_with_allow_run_a_run_is_deleted() {
    let home = home_with_runs("ui-delete");
    let delete = |workbench: &Workbench, id: &str, session: &str| {
        workbench.send("DELETE", &format!("/api/v1/runs/{id}"), &[&format!("Authorization: Bearer {session}")], "")
    };
    let reads = Workbench::start(&home, &[]);
    let session = reads.open_session();
    let id = reads.get("/runs", &session).json()["runs"][0]["id"].as_str().unwrap().to_owned();
    let refused = delete(&reads, &id, &session);
    assert_eq!(refused.status, 403);
    assert!(refused.json()["error"]["next"].as_str().unwrap().contains("--allow-run"));
    assert_eq!(reads.get(&format!("/runs/{id}/view"), &session).status, 200);

    let writes = Workbench::start(&home, &["--allow-run"]);
    let other = writes.open_session();
    assert_eq!(delete(&writes, &id, &other).status, 200);
    // a page that still shows it gets this answer
    let gone = reads.get(&format!("/runs/{id}/view"), &session);
    assert_eq!(gone.status, 404, "{}", gone.body);
    reads.stop();
    writes.stop();
}

#[test]
fn changes_of_the_store_arrive_while_the_page_is_open() {
    let home = home_with_runs("ui-events");
    let workbench = Workbench::start(&home, &[]);
    let session = workbench.open_session();
    let mut stream = TcpStream::connect(("127.0.0.1", workbench.port)).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let port = workbench.port;
    write!(stream, "GET /api/v1/events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {session}\r\n\r\n")
        .unwrap();
    let mut lines = BufReader::new(stream).lines();
    let mut next = |what: &str| lines.by_ref().map(|line| line.unwrap()).find(|line| line.contains(what));
    assert!(next("text/event-stream").is_some());
    assert!(next("event: runs").is_some(), "the first event makes a page read the list");

    let spans = json!({"resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": [{"spans": [{
        "traceId": "4bf92f3577b34da6a3ce929d0e0e4736", "spanId": "00f067aa0ba902b7", "name": "GET /",
        "kind": 2, "startTimeUnixNano": "1", "endTimeUnixNano": "2000"}]}]}]});
    let file = home.write("spans.json", &spans.to_string());
    home.run(&["import", &file.display().to_string()]).says("1 span");
    assert!(next("event: runs").is_some(), "a run was added");
    let runs = workbench.get("/runs", &session).json();
    assert!(runs["runs"][0]["title"].as_str().unwrap().contains("spans.json"));
    workbench.stop();
}

#[test]
fn a_port_in_use_and_a_damaged_store_are_reported_at_once() {
    let home = home_with_runs("ui-refused");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    home.run(&["ui", "--port", &port]).exits(3).says("cannot listen on").says("--port");
    std::fs::write(home.file(".faultloom/store.db"), "no database").unwrap();
    home.run(&["ui"]).exits(3).says("store.db");
}
