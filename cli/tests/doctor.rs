//! `faultloom doctor --target` and `record --discover`.

use crate::support::processes::ChildProcess;
use crate::support::{Home, free_ports, wait_for};
use serde_json::Value;
use std::process::{Command, Stdio};

/// `web` calls its peer, if it has one. Its source does not use the SDK.
const SERVER: &str = r#"package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
)

func main() {
	http.HandleFunc("GET /items/{id}", func(w http.ResponseWriter, r *http.Request) {
		if peer := os.Getenv("PEER"); peer != "" {
			req, _ := http.NewRequestWithContext(r.Context(), "GET", peer, nil)
			if resp, err := http.DefaultClient.Do(req); err == nil {
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		}
		fmt.Fprintln(w, "item", r.PathValue("id"))
	})
	fmt.Println(http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
}
"#;

/// The server with the SDK in it, and without.
fn build(home: &Home) {
    home.write("main.go", SERVER);
    home.write("go.mod", "module server\n\ngo 1.24\n");
    home.run(&["go", "build", "-o", "with", "."]).exits(0);
    let plain = Command::new("go").args(["build", "-o", "without", "."]).current_dir(&home.path).status();
    assert!(plain.unwrap().success());
}

fn service(name: &str, sdk: &str, binary: &str, port: u16, more: &str) -> String {
    format!(
        "  - name: {name}\n    sdk: {sdk}\n    command: [./{binary}, \"{port}\"]\n    listens: [\"127.0.0.1:{port}\"]\n{more}"
    )
}

fn state<'a>(report: &'a Value, name: &str) -> (&'a str, &'a str, &'a str) {
    let services = report["services"].as_array().unwrap();
    let found = services.iter().find(|s| s["service"] == name).unwrap_or_else(|| panic!("{name}: {report}"));
    let text = |key: &str| found[key].as_str().unwrap_or_default();
    (text("state"), text("why"), text("next"))
}

/// A service that is not started by the tool.
fn outside(home: &Home, port: u16, trust: Option<&str>) -> ChildProcess {
    let mut command = Command::new(home.file("with"));
    command.arg(port.to_string()).stdout(Stdio::null()).env_remove("FAULTLOOM_TRUST_FILE");
    if let Some(file) = trust {
        command.env("FAULTLOOM_TRUST_FILE", home.file(file)).env("FAULTLOOM_SERVICE", "outside");
    }
    let child = ChildProcess::start(command.stderr(Stdio::null()));
    wait_for("the outside service", || std::net::TcpStream::connect(("127.0.0.1", port)).ok());
    child
}

#[test]
fn every_service_is_listed_with_its_reason_and_the_next_step() {
    let home = Home::new("doctor");
    build(&home);
    let port = free_ports(6);
    let peer = format!("    environment: {{PEER: \"http://127.0.0.1:{}/items/2\"}}\n", port + 1);
    let target = format!(
        "name: mixed\nentry: http://127.0.0.1:{port}/items/1\nservices:\n{}{}{}{}{}{}",
        service("web", "go", "with", port, &peer),
        service("plain", "go", "without", port + 1, ""),
        service("cache", "none", "without", port + 2, "    support: true\n"),
        "  - {name: broken, sdk: go, command: \"echo no settings; exit 7\"}\n",
        format_args!("  - {{name: outside, sdk: go, listens: [\"127.0.0.1:{}\"]}}\n", port + 3),
        format_args!("  - {{name: away, sdk: python, listens: [\"127.0.0.1:{}\"]}}\n", port + 4),
    );
    home.write("target.yaml", &target);
    let other = outside(&home, port + 3, None);
    let report = home.run(&["doctor", "--target", "--json"]).exits(3).json();
    let (answers, why, _) = state(&report, "web");
    assert_eq!((answers, why), ("answers", "found in the recorded request"), "{report}");
    assert_eq!(state(&report, "plain").0, "gap");
    assert!(state(&report, "plain").2.contains("faultloom go build"), "{report}");
    assert_eq!((state(&report, "cache").0, state(&report, "cache").1), ("gap", "sdk: none, support"));
    assert_eq!(state(&report, "broken").0, "unhealthy");
    assert!(state(&report, "broken").1.contains("no settings"), "its last log lines are printed: {report}");
    assert!(state(&report, "away").1.contains("connection refused"), "{report}");
    assert_eq!(state(&report, "outside").1, "it was started without trust settings");
    assert!(state(&report, "outside").2.ends_with(" go --service outside"), "{report}");
    assert!(report["request"]["summary"].as_str().unwrap().contains("gaps at plain"), "{report}");
    home.assert_nothing_runs();
    drop(other);

    // with the keys of another environment, then with the right ones
    home.write(
        "other.trust",
        &format!("environment other-1\nkey trace t1 {0}\nkey fault f1 {0}\nfaults on\n", "ab".repeat(32)),
    );
    let other = outside(&home, port + 3, Some("other.trust"));
    let report = home.run(&["doctor", "--target", "--json"]).exits(3).json();
    assert!(state(&report, "outside").1.contains("keys of another environment: "), "{report}");
    drop(other);
    let other = outside(&home, port + 3, Some(".faultloom/keys/mixed.trust"));
    let report = home.run(&["doctor", "--target", "--json"]).exits(3).json();
    assert_eq!(state(&report, "outside").1, "answered with a history");
    drop(other);
}

#[test]
fn a_target_of_which_everything_answers_passes() {
    let home = Home::new("doctor-good");
    build(&home);
    let port = free_ports(2);
    let peer = format!("    environment: {{PEER: \"http://127.0.0.1:{}/items/2\"}}\n", port + 1);
    let services = service("web", "go", "with", port, &peer) + &service("stock", "go", "with", port + 1, "");
    home.write("app.yaml", &format!("name: good\nentry: http://127.0.0.1:{port}/items/1\nservices:\n{services}"));
    let ran = home.run(&["doctor", "--target", "app.yaml"]).exits(0).says("request: GET /items/{id}").says("no gaps");
    assert!(ran.out.contains("✓ web") && ran.out.contains("✓ stock"), "{}", ran.out);
    assert!(ran.out.contains("next: ") && ran.out.contains(" record"), "{}", ran.out);
    // the same while it is up
    home.run(&["up", "-d", "-t", "app.yaml"]).exits(0);
    home.run(&["doctor", "--target", "app.yaml"]).exits(0).says("✓ stock");
    // recorded entry points are listed with their commands
    home.run(&["record", "-t", "app.yaml"]).exits(0);
    let seen = home.run(&["record", "--discover", "-t", "app.yaml", "--json"]).exits(0).json();
    assert_eq!(seen["entry"]["url"], format!("http://127.0.0.1:{port}/items/1"));
    let names: Vec<&str> = seen["points"].as_array().unwrap().iter().map(|p| p["service"].as_str().unwrap()).collect();
    assert_eq!(names, ["stock", "web"]);
    assert_eq!(
        (seen["points"][0]["name"].as_str(), seen["points"][0]["seen"].as_str()),
        (Some("GET /items/{id}"), Some("1 call in 1 run"))
    );
    let command = seen["points"][0]["command"].as_str().unwrap().replace("{id}", "7");
    home.run(&crate::support::words(&command).iter().skip(1).map(String::as_str).collect::<Vec<_>>())
        .exits(0)
        .says("stock");
    home.run(&["record", "--discover", "-t", "app.yaml"]).exits(0).says("the target's entry");
    home.run(&["record", "--discover", "http://x/"]).exits(2);
    home.run(&["down"]).exits(0);
    Home::new("discover-none").run(&["record", "--discover"]).exits(2).says("there is no entry point yet");
    home.run(&["doctor", "--target"]).exits(2).says("faultloom init");
}
