//! `up`, `down`, `ps` with small services: started services are healthy, stopped ones have ended, failures are
//! reported.

use crate::support::{Home, Started, free_ports, kill_dash_9, wait_for};
use std::net::TcpListener;

/// Two servers, and a service without an address; the second server has a child process.
fn target(home: &Home) -> u16 {
    let port = free_ports(2);
    let (one, two) = (port, port + 1);
    home.write(
        "target.yaml",
        &format!(
            r#"name: small
entry: http://127.0.0.1:{one}/
services:
  - name: web
    command: ["python3", "-u", "-m", "http.server", "--bind", "127.0.0.1", "{one}"]
    listens: ["127.0.0.1:{one}"]
    health: {{http: "http://127.0.0.1:{one}/"}}
  - name: files
    command: "echo files begin; python3 -u -m http.server --bind 127.0.0.1 {two} & wait"
    listens: ["127.0.0.1:{two}"]
  - name: idle
    command: ["sleep", "1000"]
    support: true
"#
        ),
    );
    port
}

#[test]
fn up_runs_services_until_ctrl_c_and_leaves_only_their_logs() {
    let home = Home::new("up");
    target(&home);
    for signal in ["INT", "TERM"] {
        let up = home.start(&["up"]);
        wait_for("health", || up.out_so_far().contains("3 services healthy").then_some(()));
        let ps = home.run(&["ps"]).exits(0);
        for service in ["web", "files", "idle"] {
            assert!(ps.out.lines().any(|l| l.contains(service) && l.contains("healthy")), "{}", ps.out);
        }
        home.run(&["up"]).exits(3).says("small is up already").says("`faultloom down` stops it");
        up.signal(signal);
        up.wait().exits(0);
        home.assert_nothing_runs();
        assert!(std::fs::read_to_string(home.file(".faultloom/up/logs/files.log")).unwrap().contains("files begin"));
        assert!(!home.file(".faultloom/up/trust").exists(), "keys end with what they were made for");
    }
    home.run(&["ps"]).exits(0).says("nothing is up   next: faultloom up");
    assert_eq!(home.run(&["ps", "--json"]).exits(0).json()["up"], false);
    home.run(&["down"]).exits(0).says("nothing was up");
}

#[test]
fn detached_services_are_stopped_by_down() {
    let home = Home::new("detached");
    target(&home);
    home.run(&["up", "--detach"]).exits(0).says("3 services healthy");
    let json = home.run(&["ps", "--json"]).exits(0).json();
    assert_eq!((json["up"].as_bool(), json["state"]["services"].as_array().unwrap().len()), (Some(true), 3));
    home.run(&["doctor"]).exits(3).says("web healthy").says("answers without a history");
    home.run(&["down"]).exits(0).says("small: 3 services stopped");
    home.assert_nothing_runs();
    // also with --json
    home.run(&["up", "-d", "--json"]).exits(0);
    let json = home.run(&["down", "--json"]).exits(0).json();
    assert_eq!((json["down"].as_str(), json["services"].as_array().unwrap().len()), (Some("small"), 3));
}

#[test]
fn diagnostics_go_to_standard_error_and_only_on_request() {
    let home = Home::new("diagnostics");
    target(&home);
    for (options, log) in
        [(&["up", "--json"][..], ""), (&["up", "--json", "-v"], ""), (&["up", "--json"], "target=debug")]
    {
        let mut command = home.command(options);
        if !log.is_empty() {
            command.env("FAULTLOOM_LOG", log);
        }
        let up = Started::new(command);
        wait_for("health", || up.out_so_far().ends_with("}\n").then_some(()));
        up.signal("INT");
        let ran = up.wait().exits(0);
        assert_eq!(ran.json()["target"], "small", "one JSON value and nothing else");
        let wanted = options.contains(&"-v") || !log.is_empty();
        for line in ["service started", "service healthy", "all services ended"] {
            assert_eq!(ran.err.contains(line), wanted, "{options:?} {log}: {}", ran.err);
        }
        assert_eq!(ran.err.contains("reaper started"), !log.is_empty(), "{options:?} {log}: {}", ran.err);
    }
}

#[test]
fn a_service_that_crashes_is_restarted_while_up() {
    let home = Home::new("restart");
    target(&home);
    let up = home.start(&["up"]);
    wait_for("health", || up.out_so_far().contains("3 services healthy").then_some(()));
    let pid = |service: &str| {
        let state = home.run(&["ps", "--json"]).exits(0).json();
        let services = state["state"]["services"].as_array().unwrap().clone();
        services.iter().find(|s| s["name"] == service).unwrap()["process"]["pid"].as_i64().unwrap() as i32
    };
    let before = pid("web");
    kill_dash_9(before);
    wait_for("the restart", || up.err_so_far().contains("web is running again").then_some(()));
    assert!(up.err_so_far().contains("web crashed on its own"), "{}", up.err_so_far());
    assert_ne!(pid("web"), before);
    up.signal("INT");
    up.wait().exits(0);
}

#[test]
fn a_service_that_keeps_crashing_is_given_up_and_the_rest_stays() {
    let home = Home::new("fragile");
    let port = target(&home);
    let text = std::fs::read_to_string(home.file("target.yaml")).unwrap();
    // healthy after running for 300 ms; crashes only when the file exists, however long the others need to start
    let command = "until [ -e crash ]; do sleep 0.05; done; sleep 1.5; exit 7";
    home.write("target.yaml", &format!("{text}  - {{name: fragile, command: \"{command}\"}}\n"));
    let up = home.start(&["up"]);
    wait_for("health", || up.out_so_far().contains("4 services healthy").then_some(()));
    home.write("crash", "");
    wait_for("the last restart", || up.err_so_far().contains("not restarting fragile again").then_some(()));
    assert_eq!(up.err_so_far().matches("fragile is running again").count(), 5, "{}", up.err_so_far());
    assert!(
        up.err_so_far().contains("fragile keeps crashing") && up.err_so_far().contains("try it again"),
        "{}",
        up.err_so_far()
    );
    let ps = home.run(&["ps"]).exits(0);
    let line =
        |service: &str| ps.out.lines().find(|l| l.trim_start().starts_with(service)).unwrap_or_default().to_owned();
    assert!(line("fragile").contains("given up") && line("web").contains("healthy"), "{}", ps.out);
    // the others are still supervised
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    up.signal("INT");
    up.wait().exits(0);
    home.assert_nothing_runs();
}

#[test]
fn the_services_of_a_killed_up_are_stopped() {
    let home = Home::new("up-killed");
    target(&home);
    let mut up = home.start(&["up"]);
    wait_for("health", || up.out_so_far().contains("3 services healthy").then_some(()));
    up.signal("KILL");
    wait_for("its end", || up.has_ended().then_some(()));
    home.assert_nothing_runs();
    home.run(&["ps"]).exits(0).says("nothing is up");
    // the next `up` starts as usual
    home.run(&["up", "-d"]).exits(0);
    home.run(&["down"]).exits(0).says("3 services stopped");
}

#[test]
fn ctrl_c_while_services_start_stops_them() {
    let home = Home::new("early");
    let port = free_ports(1);
    home.write(
        "target.yaml",
        &format!(
            "name: slow\nservices:\n  - {{name: slow, command: [sleep, \"60\"], listens: [\"127.0.0.1:{port}\"]}}\n"
        ),
    );
    for arguments in [&["up"][..], &["up", "-d"], &["record"], &["sweep"]] {
        let started = home.start(arguments);
        wait_for("the service's start", || {
            (home.processes().iter().any(|(_, a)| a.starts_with("sleep"))).then_some(())
        });
        started.signal("INT");
        started.wait().exits(4).says("stopped while the target was starting");
        home.assert_nothing_runs();
    }
}

#[test]
fn ctrl_c_during_a_recording_stops_what_it_started() {
    let home = Home::new("record-stop");
    let port = free_ports(1);
    // listens and never answers
    let script = "import socket,sys,time; s=socket.create_server(('127.0.0.1',int(sys.argv[1]))); time.sleep(1000)";
    home.write(
        "target.yaml",
        &format!(
            "name: mute\nentry: http://127.0.0.1:{port}/\nservices:\n  - name: mute\n    command: [python3, -c, \"{script}\", \"{port}\"]\n    listens: [\"127.0.0.1:{port}\"]\n"
        ),
    );
    for arguments in [&["record", "--timeout-ms", "60000"][..], &["record", "-n", "1000", "--timeout-ms", "50"]] {
        let record = home.start(arguments);
        wait_for("the recording", || home.file(".faultloom/store.db").exists().then_some(()));
        wait_for("the run", || (home.run(&["runs"]).exits(0).out.contains("unfinished")).then_some(()));
        record.signal("INT");
        record.wait().exits(4).says("the recording was stopped");
        home.assert_nothing_runs();
        // the run is finished, with an unknown verdict
        let listed = home.run(&["runs"]).exits(0).says("unknown").out.clone();
        let id = listed.split_whitespace().next().expect("one run");
        home.run(&["runs", "--delete", id]).exits(0);
    }
    // no reply is a failure of the target
    home.run(&["record", "--timeout-ms", "200"]).exits(1).says("no reply within 200 ms");
}

#[test]
fn a_service_that_dies_at_start_is_named_with_its_last_log_lines() {
    let home = Home::new("dies");
    home.write(
        "target.yaml",
        "name: dies\nservices:\n  - name: broken\n    command: \"echo cannot find my settings >&2; exit 7\"\n",
    );
    let ran = home.run(&["up"]).exits(3);
    assert!(ran.err.contains("error: service 'broken' exited at start: exit status 7"), "{}", ran.err);
    assert!(ran.err.contains("cannot find my settings") && ran.err.contains("next: try it by hand:"), "{}", ran.err);
    home.assert_nothing_runs();
    home.run(&["up", "-d"]).exits(3).says("exited at start: exit status 7").says("cannot find my settings");
    let json = home.run(&["record", "http://127.0.0.1:9/", "--json"]).exits(3).json();
    assert_eq!(
        (json["error"]["exit"].as_u64(), json["error"]["what"].as_str()),
        (Some(3), Some("service 'broken' exited at start: exit status 7"))
    );
    assert!(json["error"]["next"].as_str().unwrap().starts_with("try it by hand:"));
    // a command that ends with status 0 must stay in the foreground
    home.write("target.yaml", "name: dies\nservices:\n  - name: brief\n    command: \"true\"\n");
    home.run(&["up"]).exits(3).says("'brief' exited at start").says("must stay in the foreground");
    // a program that does not exist
    home.write("target.yaml", "name: dies\nservices:\n  - name: absent\n    command: [no-such-program]\n");
    home.run(&["up"]).exits(3).says("service 'absent' cannot be started").says("next:");
    home.assert_nothing_runs();
}

#[test]
fn a_service_that_never_becomes_healthy_is_named_with_its_last_check() {
    let home = Home::new("unhealthy");
    let port = free_ports(1);
    home.write(
        "target.yaml",
        &format!(
            "name: unhealthy\nservices:\n  - name: deaf\n    command: [sleep, \"1000\"]\n    listens: [\"127.0.0.1:{port}\"]\n    start_timeout_s: 0.5\n"
        ),
    );
    for arguments in [&["up"][..], &["up", "-d"], &["sweep"]] {
        home.run(arguments)
            .exits(3)
            .says("service 'deaf' did not become healthy within 0.5 s")
            .says("last result: ")
            .says("raise start_timeout_s");
        home.assert_nothing_runs();
    }
}

#[test]
fn a_port_in_use_is_named_with_its_holder() {
    let home = Home::new("port");
    let port = target(&home);
    let holder = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let ran = home.run(&["up"]).exits(3);
    assert!(
        ran.err.contains(&format!("error: port {port} is in use, but service 'web' listens on 127.0.0.1:{port}")),
        "{}",
        ran.err
    );
    assert!(ran.err.contains(&format!("(pid {})", std::process::id())), "{}", ran.err);
    assert!(ran.err.contains("next: stop that process, or change the port in"), "{}", ran.err);
    home.run(&["record"]).exits(3).says("is in use");
    home.assert_nothing_runs();
    drop(holder);
    home.run(&["up", "-d"]).exits(0);
    // the same services from another folder: the message names their owner
    let other = Home::new("port-other");
    let file = home.file("target.yaml").display().to_string();
    other.run(&["up", "-t", &file]).exits(3).says("2 ports are in use").says("faultloom down");
    home.run(&["down"]).exits(0);
}
