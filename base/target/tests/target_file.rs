//! The meaning of target files, and the messages about wrong ones (goldens).

use std::path::Path;
use std::time::Duration;
use target::{Health, Sdk, Target};

const SHOP: &str = r#"
name: shop
entry: http://127.0.0.1:8080/
services:
  - name: frontend
    command: ["../../out/shop/frontend", "--fast"]
    directory: .
    sdk: go
    environment: {PORT: 8080, DEBUG: true, RATE: 1.50, MODE: "on", ZIP: 007}
    listens: ["127.0.0.1:8080"]
    health: {http: "http://127.0.0.1:8080/healthz"}
    start_timeout_s: 2.5
  - name: cart
    command: exec ./cart --port 7001
    sdk: python
    listens: ["0.0.0.0:7001", "[::1]:7002"]
    health: {grpc: "127.0.0.1:7001"}
  - name: cache
    command: [memcached, -p, "11211"]
    listens: ["localhost:11211"]
    support: true
  - name: worker
    command: ["python3", "worker.py"]
"#;

fn parse(text: &str) -> Result<Target, model::Failure> {
    Target::parse(text, Path::new("/srv/lab/shop/target.yaml"), "target.yaml")
}

#[test]
fn every_key_is_read() {
    let shop = parse(SHOP).unwrap();
    assert_eq!(shop.name, "shop");
    assert_eq!(shop.entry.as_ref().unwrap().to_string(), "http://127.0.0.1:8080/");
    let frontend = shop.service("frontend").unwrap();
    assert_eq!(frontend.command[1], "--fast");
    assert!(frontend.command[0].starts_with("/srv/lab/shop/") && frontend.command[0].ends_with("out/shop/frontend"));
    assert_eq!(frontend.directory, Path::new("/srv/lab/shop"));
    let values: Vec<&str> = frontend.environment.values().map(String::as_str).collect();
    assert_eq!(values, ["true", "on", "8080", "1.50", "007"]);
    assert_eq!((frontend.sdk, frontend.start_timeout), (Sdk::Go, Duration::from_millis(2500)));
    assert_eq!(frontend.health.to_string(), "GET http://127.0.0.1:8080/healthz");
    let cart = shop.service("cart").unwrap();
    assert_eq!(cart.command, ["sh", "-c", "exec ./cart --port 7001"]);
    assert_eq!((cart.sdk, cart.start_timeout), (Sdk::Python, Duration::from_secs(20)));
    assert_eq!(cart.health.to_string(), "gRPC health of 127.0.0.1:7001");
    let cache = shop.service("cache").unwrap();
    assert_eq!((cache.command[0].as_str(), cache.sdk), ("memcached", Sdk::None));
    assert_eq!(cache.health.to_string(), "TCP connect to localhost:11211");
    assert_eq!(shop.service("worker").unwrap().health, Health::Alive);
    assert_eq!(shop.own_services(), ["frontend", "cart", "worker"]);
}

#[test]
fn peers_list_every_address_that_a_caller_may_use() {
    let peers = parse(SHOP).unwrap().peers();
    let expected = [
        "127.0.0.1:8080=frontend",
        "localhost:8080=frontend",
        "0.0.0.0:7001=cart",
        "127.0.0.1:7001=cart",
        "localhost:7001=cart",
        "[::1]:7002=cart",
        "localhost:7002=cart",
        "localhost:11211=cache",
        "127.0.0.1:11211=cache",
    ];
    assert_eq!(peers.split(',').collect::<Vec<_>>(), expected);
}

#[test]
fn wrong_files_get_a_clear_message() {
    let service = |lines: &str| format!("name: shop\nservices:\n  - name: cart\n    command: [cart]\n{lines}");
    let cases = [
        ("unknown key", "name: shop\nservces: []\n".into()),
        ("unknown key of a service", service("    listen: [\"127.0.0.1:1\"]\n")),
        ("unknown key, nothing like it", service("    replicas: 3\n")),
        ("unknown key of health", service("    health: {htttp: \"http://127.0.0.1:1/\"}\n")),
        ("missing name", "services: []\n".into()),
        ("neither command nor address", "name: shop\nservices:\n  - name: cart\n".into()),
        (
            "environment of an attached service",
            "name: shop\nservices:\n  - {name: cart, listens: [\"127.0.0.1:1\"], environment: {A: 1}}\n".into(),
        ),
        (
            "left open by init",
            "name: shop\nentry: \"TODO: where do requests go?\"\nservices:\n  - {name: cart, command: TODO}\n".into(),
        ),
        ("key twice", "name: shop\nname: shop\n".into()),
        ("empty file", "\n".into()),
        ("not a mapping", "- name: shop\n".into()),
        ("bad YAML", "name: shop\n  services: []\n".into()),
        ("wrong type: list", service("    listens: 127.0.0.1:7001\n")),
        ("wrong type: number", service("    start_timeout_s: soon\n")),
        ("wrong type: boolean", service("    support: sometimes\n")),
        ("wrong type: mapping", service("    environment: [PORT=8080]\n")),
        ("wrong type: health", service("    health: tcp\n")),
        ("wrong type: command", "name: shop\nservices:\n  - name: cart\n    command: {run: x}\n".into()),
        ("wrong type: name", "name: [shop]\nservices: []\n".into()),
        ("wrong type: services", "name: shop\nservices: {cart: {command: x}}\n".into()),
        ("value missing", service("    environment: {PORT: }\n")),
        ("no services", "name: shop\nservices: []\n".into()),
        ("name with a blank", "name: my shop\nservices: []\n".into()),
        ("service twice", service("  - {name: cart, command: [b]}\n")),
        (
            "address twice",
            service("    listens: [\"0.0.0.0:1\"]\n  - {name: b, command: [b], listens: [\"127.0.0.1:1\"]}\n"),
        ),
        ("address without port", service("    listens: [localhost]\n")),
        ("address with a bad port", service("    listens: [\"localhost:99999\"]\n")),
        ("wrong scheme", service("    health: {http: \"ftp://127.0.0.1/\"}\n")),
        ("two checks", service("    health: {http: \"http://127.0.0.1/\", tcp: \"127.0.0.1:80\"}\n")),
        ("bad entry", format!("entry: 127.0.0.1:80\n{}", service(""))),
        ("bad sdk", service("    sdk: pyton\n")),
        ("other sdk", service("    sdk: ruby\n")),
        ("negative time", service("    start_timeout_s: -1\n")),
        ("own variable", service("    environment: {FAULTLOOM_PEERS: x}\n")),
        ("empty command", "name: shop\nservices:\n  - name: cart\n    command: []\n".into()),
    ];
    let mut text = String::new();
    for (name, file) in cases {
        let failure = parse(&file).map(|target| target.name).expect_err(name);
        assert_eq!(failure.exit(), model::Exit::Usage, "{name}");
        text += &format!("# {name}\n{failure}\n\n");
    }
    crate::support::golden("target_file", &text);
}

#[test]
fn a_missing_file_has_a_clear_message() {
    let failure = Target::load("/nowhere/target.yaml").unwrap_err();
    assert_eq!(failure.what, "cannot read the target file /nowhere/target.yaml");
    assert!(failure.why.unwrap().starts_with("no such file"));
}
