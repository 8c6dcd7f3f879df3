//! Maps of several hosts: two state directories, two servers on loopback, one client.

use crate::support::{Home, Started, wait_for};
use flowdb::FlowDb;
use flows::{Host, HostAddress, HostId, Losses, Source, Window};
use serde_json::Value;
use std::net::TcpListener;

fn now_ms() -> i64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as i64
}

/// A store with one window of a host without flows.
fn store_of_host(home: &Home, name: &str) {
    let to_ms = now_ms();
    let window = Window {
        agent: uuid::Uuid::from_u128(name.bytes().map(u128::from).sum()),
        sequence: 1,
        from_ms: to_ms - 1_000,
        to_ms,
        host: Host {
            id: HostId(format!("machine-{name}")),
            name: name.into(),
            boot: "7c1d0c7e-0000-4000-8000-000000000000".into(),
            addresses: vec![HostAddress { netns: 1, ip: "10.0.0.1".parse().unwrap() }],
        },
        source: Source::Ebpf,
        services: Vec::new(),
        processes: Vec::new(),
        listeners: Some(Vec::new()),
        flows: Vec::new(),
        losses: Losses::default(),
    };
    let file = home.file(&format!("{name}/map.db"));
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let flowdb = FlowDb::open(&file.to_string_lossy()).await.unwrap();
        flowdb.record(&[window]).await.unwrap();
        flowdb.close().await;
    });
}

/// A server and its first output.
fn serve(home: &Home, name: &str) -> (Started, Value) {
    let keys = format!("keys-{name}");
    let server = home.start(&[
        "agent",
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--metrics",
        "127.0.0.1:0",
        "--state",
        name,
        "--keys",
        &keys,
        "--json",
    ]);
    let started = wait_for("the server", || {
        let out = server.out_so_far();
        out.ends_with('\n').then(|| serde_json::from_str(&out).unwrap())
    });
    (server, started)
}

fn trust(home: &Home, name: &str, server: &Value) {
    let (address, fingerprint) = (server["listens"].as_str().unwrap(), server["fingerprint"].as_str().unwrap());
    let token = format!("@keys-{name}/token");
    home.run(&["agent", "trust", address, fingerprint, "--token", &token, "--hosts", "hosts"])
        .exits(0)
        .says("--hosts hosts");
}

fn stop(server: Started) {
    server.signal("TERM");
    server.wait().exits(0);
}

#[test]
fn two_hosts_are_one_map_and_one_that_is_down_is_a_remark() {
    let home = Home::new("fleet");
    store_of_host(&home, "alpha");
    store_of_host(&home, "beta");
    let (alpha, alpha_started) = serve(&home, "alpha");
    let (beta, beta_started) = serve(&home, "beta");
    trust(&home, "alpha", &alpha_started);
    trust(&home, "beta", &beta_started);
    let map = |code| home.run(&["map", "--hosts", "hosts", "--json"]).exits(code);
    let both = map(0).json();
    assert_eq!((both["hosts"].as_u64(), both["graph"]["remarks"].as_array().unwrap().len()), (Some(2), 0), "{both}");
    stop(beta);
    let one = map(0).json();
    assert_eq!(one["hosts"], 1);
    assert!(one["graph"]["remarks"][0].as_str().unwrap().contains("did not answer"), "{one}");
    stop(alpha);
    map(3).says("none of the 2 hosts");
}

/// The comparison had no remarks about hosts that did not answer.
#[test]
fn a_comparison_reports_a_host_that_is_down() {
    let home = Home::new("fleet-beside");
    store_of_host(&home, "alpha");
    store_of_host(&home, "beta");
    let (alpha, alpha_started) = serve(&home, "alpha");
    let (beta, beta_started) = serve(&home, "beta");
    trust(&home, "alpha", &alpha_started);
    trust(&home, "beta", &beta_started);
    stop(beta);
    home.write(
        "target.yaml",
        "name: t\nservices:\n  - {name: s, command: [sleep, \"9\"], listens: [\"127.0.0.1:1\"]}\n",
    );
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = runs::Store::open(&home.file(".faultloom")).await.unwrap();
        let (mut run, dir) =
            store.begin(model::KindName::new("recording"), "GET /", serde_json::Value::Null, 0).await.unwrap();
        std::fs::write(dir.file("traces.jsonl"), "").unwrap();
        store.finish(&mut run, model::Verdict::Pass, serde_json::Value::Null).await.unwrap();
    });
    let compare =
        |format: &[&str]| home.run(&[&["map", "--hosts", "hosts", "--beside", "last"], format].concat()).exits(0);
    let compared = compare(&["--json"]).json();
    assert!(compared["graph"]["remarks"][0].as_str().unwrap().contains("did not answer"), "{compared}");
    compare(&[]).says("did not answer");
    stop(alpha);
}

/// A map that waited for a host was killed by the signal, without a message.
#[test]
fn an_interrupt_ends_a_map_that_waits_for_a_host() {
    let home = Home::new("fleet-interrupt");
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    home.write("token", &"x".repeat(64));
    let fingerprint = format!("sha256:{}", "0".repeat(64));
    home.run(&["agent", "trust", &address, &fingerprint, "--token", "@token", "--hosts", "hosts"]).exits(0);
    for arguments in [&["--save"][..], &["--changed-since", "1d"], &["--beside", "last"]] {
        let map = home.start(&[&["map", "--hosts", "hosts"], arguments].concat());
        let connection = silent.accept().unwrap(); // it waits for the handshake now
        map.signal("INT");
        map.wait().exits(4).says("the map was stopped");
        drop(connection);
    }
    home.run(&["runs", "--json"]).exits(0).says("[]");
}

#[test]
fn a_wrong_pin_and_a_wrong_token_are_refused_with_the_reason() {
    let home = Home::new("fleet-pin");
    store_of_host(&home, "alpha");
    let (alpha, mut started) = serve(&home, "alpha");
    let fingerprint = started["fingerprint"].clone();
    started["fingerprint"] = format!("sha256:{}", "0".repeat(64)).into();
    trust(&home, "alpha", &started);
    home.run(&["map", "--hosts", "hosts"]).exits(3).says("its key is not the trusted one");
    started["fingerprint"] = fingerprint;
    let secret = std::fs::read_to_string(home.file("keys-alpha/token")).unwrap();
    std::fs::write(home.file("keys-alpha/token"), "x".repeat(64)).unwrap();
    trust(&home, "alpha", &started);
    let refused = home.run(&["map", "--hosts", "hosts"]).exits(3).says("the token is not the one");
    assert!(!refused.err.contains(secret.trim()));
    std::fs::write(home.file("keys-alpha/token"), &secret).unwrap();
    home.run(&["map", "--hosts", "hosts"]).exits(0).says("1 host");
    home.run(&["agent", "trust", "a:1", "sha256:00", "--token", "@keys-alpha/token"])
        .exits(2)
        .says("is not a fingerprint");
    home.run(&["agent", "trust", "a", fingerprint_of(&started), "--token", "@keys-alpha/token", "--hosts", "hosts"])
        .exits(2);
    stop(alpha);
}

fn fingerprint_of(server: &Value) -> &str {
    server["fingerprint"].as_str().unwrap()
}
