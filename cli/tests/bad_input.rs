//! Invalid input: each error has what failed, the reason, the next step, and its exit code. Nothing is started.

use crate::support::{Home, free_ports, kill_dash_9, wait_for};

const GOOD: &str = "name: t\nservices:\n  - {name: a, command: [sleep, \"1000\"]}\n";

#[test]
fn wrong_target_files_are_refused_with_their_line() {
    let home = Home::new("target-file");
    home.run(&["up"]).exits(2).says("there is no target.yaml here").says("name a target file with -t FILE");
    home.run(&["record", "http://127.0.0.1:1/"])
        .exits(2)
        .says("there is no target: no target.yaml here, nothing is up");
    home.run(&["up", "-t", "absent.yaml"]).exits(2).says("cannot read the target file absent.yaml");
    let cases = [
        // (the file, the message)
        ("", "target.yaml"),
        ("name: t\n", "services"),
        ("name: t\nservices: []\n", "the list of services is empty"),
        ("name: t\nservices:\n  - {name: a, comand: [sleep, \"1\"]}\n", "comand"),
        ("name: t\nservice:\n  - {name: a, command: [sleep, \"1\"]}\n", "service"),
        ("name: t\nservices:\n  - {name: a, command: 7}\n", "command"),
        ("name: t\nservices:\n  - {name: a, command: [sleep], support: perhaps}\n", "support"),
        ("name: t\nservices: {name: a}\n", "services"),
        ("name: t\nservices:\n  - {name: a b, command: [sleep]}\n", "the name of a service is 'a b'"),
        ("name: t\nservices:\n  - {name: a, command: [sleep], listens: [\"nowhere\"]}\n", "'nowhere' cannot be used"),
        ("name: t\nservices:\n  - {name: a, command: [sleep], sdk: pyton}\n", "did you mean 'python'?"),
        ("name: t\nservices:\n  - {name: a, command: [sleep], health: {}}\n", "exactly one of http, tcp, grpc"),
        ("name: t\nservices:\n  - {name: a, command: [sleep], start_timeout_s: -1}\n", "start_timeout_s"),
        ("name: t\nentry: ftp://x/\nservices:\n  - {name: a, command: [sleep]}\n", "entry 'ftp://x/' cannot be used"),
        (
            "name: t\nservices:\n  - {name: a, command: [sleep]}\n  - {name: a, command: [sleep]}\n",
            "two services are named 'a'",
        ),
        ("name: [t\n", "target.yaml"),
        (
            "name: t\nservices:\n  - {name: a, command: [sleep], environment: {FAULTLOOM_UP: x}}\n",
            "may not set FAULTLOOM_UP",
        ),
    ];
    for (text, said) in cases {
        home.write("target.yaml", text);
        for verb in ["up", "sweep"] {
            let ran = home.run(&[verb]).exits(2).says(said);
            assert!(ran.err.starts_with("error: ") && ran.err.contains("target.yaml"), "{text:?}: {}", ran.err);
            assert!(ran.err.lines().count() <= 12, "{text:?}: {}", ran.err);
        }
        let json = home.run(&["up", "--json"]).exits(2).json();
        assert_eq!(json["error"]["exit"], 2, "{text:?}");
    }
    home.assert_nothing_runs();
}

#[test]
fn wrong_arguments_are_refused_before_anything_is_started() {
    let home = Home::new("arguments");
    // starting this target would fail, because it never becomes healthy
    home.write(
        "target.yaml",
        "name: t\nservices:\n  - {name: a, command: [sleep, \"9\"], listens: [\"127.0.0.1:1\"], start_timeout_s: 60}\n",
    );
    let cases: [(&[&str], &str); 23] = [
        (&["recrod"], "unrecognized subcommand"),
        (&["record", "--falt", "x"], "unexpected argument '--falt'"),
        (&["record", "-n", "0"], "invalid value '0'"),
        (&["record", "-n", "many"], "invalid value 'many'"),
        (&["sweep", "-c", "0"], "invalid value '0'"),
        (&["sweep", "-c", "5000"], "5000 is not in 1..=512"),
        (&["sweep", "--resume", "last", "-s", "services"], "cannot be used with"),
        (&["faults", "maybe"], "invalid value 'maybe'"),
        (&["record", "-f", "currency"], "fault 'currency'"),
        (&["record", "-f", "currency explode"], "fault 'currency explode'"),
        (&["record", "-f", "currency status"], "fault 'currency status'"),
        (&["record", "--expect-body", "("], "not a regular expression"),
        (&["record", "--expect-status", "2xx"], "'2xx' is not a status code"),
        (&["record", "--expect-json", "x"], "is not PATH=VALUE"),
        (&["sweep", "--expect-body", "("], "not a regular expression"),
        (&["sweep", "-s", "everything"], "there is no space 'everything'"),
        (&["sweep", "-k", "explode"], "'explode' is not a kind of fault"),
        (&["record", "127.0.0.1:80"], "a URL begins with http://, https://, grpc:// or grpcs://"),
        (&["record", "http://127.0.0.1:1/a<b"], "must not contain '<'; write it as %3C"),
        (&["sweep", "http://127.0.0.1:1/?q=<script>"], "must not contain '<'; write it as %3C"),
        (&["sweep", "--before", "GET http://127.0.0.1:1/<"], "must not contain '<'; write it as %3C"),
        (&["record", "http://127.0.0.1:1/a\u{202e}b"], "must not contain '\\u{202e}'; write it as %E2%80%AE"),
        (&["sweep", "-s", "a\u{202e}b"], "there is no space 'a\\u202eb'"),
    ];
    for (arguments, said) in cases {
        let begin = std::time::Instant::now();
        let ran = home.run(arguments).exits(2).says(said);
        assert!(
            begin.elapsed().as_secs() < 5 && !ran.err.contains("starting"),
            "{arguments:?} starts the target: {}",
            ran.err
        );
        let json = home.run(&[arguments, &["--json"]].concat()).exits(2).json();
        assert_eq!(json["error"]["exit"], 2, "{arguments:?}");
        assert!(!json["error"]["what"].as_str().unwrap().is_empty());
    }
    home.run(&["--help"]).exits(0).says("Exit codes: 0 pass, 1 fail, 2 usage, 3 environment, 4 aborted, 5 unknown.");
    home.run(&["--version"]).exits(0);
    home.assert_nothing_runs();
}

#[test]
fn wrong_requests_are_refused() {
    let home = Home::new("requests");
    home.write("target.yaml", GOOD);
    home.run(&["up", "-d"]).exits(0);
    let cases: [(&[&str], &str); 8] = [
        (&["record"], "no request to send"),
        (&["record", "ftp://127.0.0.1/"], "only http://, https://, grpc:// and grpcs:// are supported"),
        (&["record", "grpc://127.0.0.1:1/Convert"], "a gRPC path is /package.Service/Method"),
        (&["record", "http://127.0.0.1:1/", "-H", "no colon"], "is not 'Name: value'"),
        (&["record", "http://127.0.0.1:1/", "-d", "@absent"], "absent cannot be read"),
        (&["record", "http://127.0.0.1:1/", "--proto", "x.proto"], "(--proto) is for grpc:// requests"),
        (&["record", "grpc://127.0.0.1:1/a.B/C", "-d", "{}"], "needs its schema (--proto FILE)"),
        (&["record", "grpc://127.0.0.1:1/a.B/C", "--proto", "absent.proto"], "absent.proto cannot be compiled"),
    ];
    for (arguments, said) in cases {
        home.run(arguments).exits(2).says(said);
    }
    for verb in ["show", "report"] {
        home.run(&[verb, "zzz"]).exits(2).says("there is no run 'zzz'").says("`faultloom runs` lists them");
    }
    home.run(&["sweep", "--resume", "zzz"]).exits(2).says("there is no run 'zzz'");
    home.run(&["down"]).exits(0);
}

#[test]
fn an_unreachable_target_is_an_environment_failure() {
    let home = Home::new("unreachable");
    home.write("target.yaml", GOOD);
    home.run(&["up", "-d"]).exits(0);
    let port = free_ports(1);
    let (http, grpc) = (format!("http://127.0.0.1:{port}/"), format!("grpc://127.0.0.1:{port}/a.B/C"));
    for arguments in [
        &["record", &http][..],
        &["record", &http, "-f", "x unavailable"],
        &["record", &grpc],
        &["sweep", &http],
        &["sweep", &grpc],
    ] {
        let ran = home.run(arguments).exits(3);
        assert!(
            ran.err.contains(&format!(":{port}/")) && ran.err.contains("cannot be reached"),
            "{arguments:?}: {}",
            ran.err
        );
        assert!(ran.err.contains("Connection refused") && ran.err.contains("next: "), "{arguments:?}: {}", ran.err);
    }
    home.run(&["record", "http://no.such.host.invalid/"]).exits(3).says("cannot be reached");
    let json = home.run(&["record", &http, "--json"]).exits(3).json();
    assert_eq!(json["error"]["exit"], 3);
    let runs = home.run(&["runs", "-n", "1", "--json"]).exits(0).json();
    assert_eq!(runs[0]["verdict"], "unknown", "nothing was found out");
    home.run(&["down"]).exits(0);
}

/// A server without SDK replies, so nothing is known about faults at the services that it calls.
#[test]
fn an_entry_without_sdk_is_unknown_never_pass() {
    let home = Home::new("deaf");
    let port = free_ports(1);
    home.write(
        "target.yaml",
        &format!(
            "name: plain\nentry: http://127.0.0.1:{port}/\nservices:\n  - name: web\n    command: [python3, -m, http.server, --bind, 127.0.0.1, \"{port}\"]\n    listens: [\"127.0.0.1:{port}\"]\n"
        ),
    );
    home.run(&["up", "-d"]).exits(0);
    home.run(&["record"]).exits(5).says("verdict unknown: the reply carries no history");
    home.run(&["record", "-f", "x unavailable"]).exits(5).says("answered without a history");
    let ran = home.run(&["sweep"]).exits(5);
    assert!(
        ran.err.contains("answered without a history") && ran.err.contains("next: faultloom doctor"),
        "{}",
        ran.err
    );
    let grpc = format!("grpc://127.0.0.1:{port}/a.B/C");
    let ran = home.run(&["record", &grpc]);
    assert_ne!(ran.status.code(), Some(0), "an HTTP server is no gRPC server: {}", ran.err);
    home.run(&["down"]).exits(0);
}

#[test]
fn an_external_target_is_used_by_its_trust_file() {
    let home = Home::new("foreign");
    home.write("target.yaml", GOOD);
    home.run(&["up", "-d"]).exits(0);
    let trust = home.run(&["ps", "--json"]).exits(0).json()["state"]["trust_file"].as_str().unwrap().to_owned();
    let other = Home::new("foreign-other");
    other.run(&["record", "http://127.0.0.1:1/", "--trust", &trust]).exits(3).says("cannot be reached");
    other.run(&["record", "--trust", &trust]).exits(2).says("no request to send");
    other.run(&["record", "http://127.0.0.1:1/", "--trust", "absent"]).exits(3).says("absent cannot be read");
    let damaged = other.write("damaged", "environment x\nkey fault f1 12345\n").display().to_string();
    let ran = other.run(&["record", "http://127.0.0.1:1/", "--trust", &damaged]);
    assert!(matches!(ran.status.code(), Some(2 | 3)) && ran.err.contains("line 2"), "{:?} {}", ran.status, ran.err);
    assert!(!ran.err.contains("12345"), "keys are never printed");
    other
        .run(&["sweep", "http://127.0.0.1:1/", "-s", "all-services", "--trust", &trust])
        .exits(2)
        .says("needs a target file");
    home.run(&["down"]).exits(0);
}

#[test]
fn a_target_that_is_stopped_is_detected() {
    let home = Home::new("gone");
    home.write("target.yaml", GOOD);
    home.run(&["up", "-d"]).exits(0);
    let state = home.run(&["ps", "--json"]).exits(0).json();
    let supervisor = state["state"]["supervisor"]["pid"].as_i64().unwrap() as i32;
    kill_dash_9(supervisor);
    wait_for("its services' end", || home.processes().is_empty().then_some(()));
    home.run(&["ps"]).exits(0).says("nothing is up");
    home.run(&["faults", "off"]).exits(3).says("no target is up here");
    home.run(&["down"]).exits(0);
}
