//! `sweep --confirm-real`: bugs are repeated with services that are killed instead of injected faults.
//!
//! `front` calls `back` twice and relies on the first call. It also calls `aside`, and is wrong only if `aside` fails
//! while it accepts connections, which a stopped service does not. `other` is attached.

use crate::support::{Home, free_ports, wait_for};
use serde_json::Value;
use std::process::{Child, Command, Stdio};

const SERVER: &str = r#"package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
)

func get(r *http.Request, url string) bool {
	req, _ := http.NewRequestWithContext(r.Context(), "GET", url, nil)
	resp, err := http.DefaultClient.Do(req)
	if err == nil {
		resp.Body.Close()
	}
	return err == nil
}

func accepts(url string) bool {
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err == nil {
		conn.Close()
	}
	return err == nil
}

func main() {
	back, aside, other := os.Getenv("BACK"), os.Getenv("ASIDE"), os.Getenv("OTHER")
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if back == "" {
			return
		}
		if get(r, back+"/check") && !get(r, back+"/use") {
			w.WriteHeader(500)
		} else if !get(r, aside+"/aside") && accepts(aside) {
			w.WriteHeader(500)
		} else if !get(r, other+"/other") {
			w.WriteHeader(500)
		}
	})
	fmt.Println(http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
}
"#;

struct Target {
    home: Home,
    /// The attached service.
    other: Child,
}

impl Target {
    fn new(name: &str) -> Target {
        let home = Home::new(name);
        home.write("main.go", SERVER);
        home.write("go.mod", "module server\n\ngo 1.24\n");
        home.run(&["go", "build", "-o", "server", "."]).exits(0);
        let port = free_ports(4);
        let url = |at: u16| format!("\"http://127.0.0.1:{}\"", port + at);
        let service = |name: &str, at: u16, more: String| {
            let listens = port + at;
            format!(
                "- {{name: {name}, sdk: go, command: [./server, \"{listens}\"], listens: [\"127.0.0.1:{listens}\"]{more}}}\n"
            )
        };
        let environment = format!(", environment: {{BACK: {}, ASIDE: {}, OTHER: {}}}", url(1), url(2), url(3));
        let services = service("front", 0, environment) + &service("back", 1, String::new());
        let services = services + &service("aside", 2, String::new());
        let attached = format!("- {{name: other, listens: [\"127.0.0.1:{}\"]}}\n", port + 3);
        home.write(
            "target.yaml",
            &format!("name: real\nentry: http://127.0.0.1:{port}/\nservices:\n{services}{attached}"),
        );
        let mut command = Command::new(home.file("server"));
        command.arg((port + 3).to_string()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let other = command.spawn().unwrap();
        wait_for("the attached service", || std::net::TcpStream::connect(("127.0.0.1", port + 3)).ok());
        Target { home, other }
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.other.kill();
        let _ = self.other.wait();
    }
}

const SWEEP: [&str; 6] = ["sweep", "-s", "services", "-s", "crash-points", "--confirm-real"];

/// By the service that the bug's first fault affects.
fn real_stop(swept: &Value, service: &str) -> Value {
    let bugs = swept["sweep"]["bugs"].as_array().unwrap();
    let of = |bug: &&Value| bug["failed"]["callee"] == service;
    bugs.iter().find(of).unwrap_or_else(|| panic!("no bug of {service}: {bugs:?}"))["real_stop"].clone()
}

#[test]
fn bugs_are_confirmed_by_real_stops_or_marked_with_the_reason() {
    let target = Target::new("real-stop");
    let ran = target.home.run(&[&SWEEP[..], &["--json"]].concat()).exits(1);
    let swept = ran.json();
    let back = real_stop(&swept, "back");
    assert_eq!((&back["result"], &back["stopped"][0]), (&"confirmed".into(), &"back".into()), "{back}");
    assert_eq!(back["violation"], "status 500");
    let aside = real_stop(&swept, "aside");
    assert_eq!((&aside["result"], &aside["stopped"][0]), (&"not-confirmed".into(), &"aside".into()), "{aside}");
    let other = real_stop(&swept, "other");
    assert_eq!(other["result"], "not-possible");
    assert!(other["reason"].as_str().unwrap().contains("other is attached: something else started it"), "{other}");
    let page = std::fs::read_to_string(target.home.file(swept["report"].as_str().unwrap())).unwrap();
    assert!(page.contains("Not confirmed: with aside stopped for real, the request passed"));
    target.home.run(&["show", "last"]).exits(0).says("Confirmed with back stopped for real");

    // the services of a target that is up are stopped and started again by its supervisor
    target.home.run(&["up", "-d"]).exits(0);
    let swept = target.home.run(&[&SWEEP[..], &["--json"]].concat()).exits(1).json();
    let results = ["back", "aside", "other"].map(|service| real_stop(&swept, service)["result"].clone());
    assert_eq!(results, ["confirmed", "not-confirmed", "not-possible"]);
    target.home.run(&["record"]).exits(0);
    for signal in ["KILL", "INT"] {
        let mut sweep = target.home.start(&[&["-q"][..], &SWEEP].concat());
        let stop = target.home.file(".faultloom/up/stop.json");
        wait_for("a stop request", || {
            assert!(!sweep.has_ended(), "{}", sweep.err_so_far());
            stop.exists().then_some(())
        });
        sweep.signal(signal);
        sweep.wait();
        wait_for("the service to run again", || {
            let listed = target.home.run(&["ps", "--json"]).json().to_string();
            let all_run = target.home.run(&["record", "-q"]).status.code() == Some(0);
            (all_run && !stop.exists() && !listed.contains("\"given_up\":true")).then_some(())
        });
    }
    target.home.run(&["down"]).exits(0);
}

#[test]
fn nothing_is_left_if_the_tool_is_killed_or_interrupted_while_a_service_is_stopped() {
    let target = Target::new("real-killed");
    for signal in ["KILL", "INT"] {
        let mut sweep = target.home.start(&[&["-v"][..], &SWEEP].concat());
        wait_for("a real stop", || {
            assert!(!sweep.has_ended(), "{}", sweep.err_so_far());
            sweep.err_so_far().contains("killing service").then_some(())
        });
        sweep.signal(signal);
        let ran = sweep.wait();
        assert_ne!(ran.status.code(), Some(0), "{}", ran.err);
        target.home.assert_nothing_runs();
    }
}
