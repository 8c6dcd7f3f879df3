//! `faultloom map` on stores with hand-made windows.

use crate::support::{Home, Started, repository};
use flowdb::FlowDb;
use flows::*;
use std::net::IpAddr;
use std::path::Path;

const MINUTE_MS: i64 = 60_000;

fn now_ms() -> i64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as i64
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// A window of one host under construction.
struct WindowBuilder {
    window: Window,
}

impl WindowBuilder {
    fn on(host: &str, address: &str, to_ms: i64) -> WindowBuilder {
        let host = Host {
            id: HostId(format!("machine-{host}")),
            name: host.into(),
            boot: "7c1d0c7e-0000-4000-8000-000000000000".into(),
            addresses: vec![HostAddress { netns: 1, ip: ip(address) }],
        };
        let window = Window {
            agent: uuid::Uuid::from_u128(to_ms as u128 ^ host.name.bytes().map(u128::from).sum::<u128>() << 64),
            sequence: 1,
            from_ms: to_ms - 1_000,
            to_ms,
            host,
            source: Source::Ebpf,
            services: Vec::new(),
            processes: Vec::new(),
            listeners: Some(Vec::new()),
            flows: Vec::new(),
            losses: Losses::default(),
        };
        WindowBuilder { window }
    }

    fn service(&mut self, kind: ServiceKind, name: &str) -> ServiceKey {
        let key = ServiceKey::of(&self.window.host.id, kind, name);
        if !self.window.services.iter().any(|s| s.key == key) {
            self.window.services.push(Service {
                key: key.clone(),
                kind,
                name: name.into(),
                executable: None,
                arguments: None,
                container: None,
                pod: None,
                unit: (kind == ServiceKind::Unit).then(|| name.to_owned()),
                cgroup: None,
            });
        }
        key
    }

    fn flow(&mut self, side: Side, name: &str, from: &str, to: &str, port: u16, n: u64) {
        let service = self.service(ServiceKind::Program, name);
        if side == Side::Passive {
            let at = ListenAddress::Inet { ip: ip("0.0.0.0"), port };
            let listener = Listener { service: service.clone(), netns: 1, protocol: Protocol::Tcp, at };
            self.window.listeners.as_mut().unwrap().push(listener);
        }
        self.window.flows.push(Flow {
            side,
            service,
            process: None,
            netns: 1,
            link: Link {
                protocol: Protocol::Tcp,
                active: Some(ip(from)),
                passive: ListenAddress::Inet { ip: ip(to), port },
            },
            translated: None,
            source: Source::Ebpf,
            attribution: Attribution::Exact,
            counts: Counts { opened: n, established: n, closed: n, ..Counts::default() },
        });
    }

    fn record(self, state: &Path) {
        std::fs::create_dir_all(state).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let flowdb = FlowDb::open(&state.join("map.db").to_string_lossy()).await.unwrap();
            flowdb.record(&[self.window]).await.unwrap();
            flowdb.close().await;
        });
    }
}

/// web → api → db on one host, and an external client.
fn alpha(state: &Path, to_ms: i64) {
    let mut builder = WindowBuilder::on("alpha", "10.0.0.1", to_ms);
    builder.flow(Side::Passive, "web", "192.0.2.7", "10.0.0.1", 80, 4);
    for (from, to, port) in [("web", "api", 8080), ("api", "db", 5432)] {
        builder.flow(Side::Active, from, "127.0.0.1", "127.0.0.1", port, 3);
        builder.flow(Side::Passive, to, "127.0.0.1", "127.0.0.1", port, 3);
    }
    builder.record(state);
}

#[test]
fn without_an_agent_the_next_step_is_printed() {
    let home = Home::new("map-none");
    let ran = home.run(&["map", "--state", "nowhere"]).exits(3);
    ran.says("no agent has run on this host yet").says("faultloom agent").says("map --now");
    home.run(&["map", "--hosts", "nowhere"]).exits(2).says("agent trust");
    home.run(&["map", "--from", "1h", "--to", "2h", "--state", "nowhere"]).exits(2).says("ends before it starts");
    for arguments in [
        &["map", "--last", "5"][..],
        &["map", "--at", "yesterday"],
        &["map", "--hops", "2"],
        &["map", "x", "--dot", "--json"],
    ] {
        home.run(arguments).exits(2);
    }
}

#[test]
fn queries_select_parts_of_the_map() {
    let home = Home::new("map-query");
    let now = now_ms();
    alpha(&home.file("s"), now);
    let map = |more: &[&str]| {
        let mut all = vec!["map", "--state", "s"];
        all.extend(more);
        home.run(&all)
    };
    let table = map(&[]).exits(0).says("4 nodes, 3 edges · 1 host").says("next: faultloom map").out;
    assert!(
        table.lines().any(|l| l.contains("web") && l.contains("→ api") && l.contains(":8080") && l.contains('3')),
        "{table}"
    );
    assert!(table.lines().any(|l| l.contains("192.0.2.7") && l.contains("one end observed")), "{table}");
    let edges = |more: &[&str]| map(more).exits(0).json()["graph"]["edges"].as_array().unwrap().len();
    assert_eq!(edges(&["--json"]), 3);
    assert_eq!(edges(&["api", "--json"]), 2);
    assert_eq!(edges(&["api", "--depends-on", "--json"]), 1);
    assert_eq!(edges(&["db", "--depended-by", "--hops", "9", "--json"]), 3);
    assert_eq!(edges(&["--by", "host", "--json"]), 3, "by port");
    let time = jiff::Timestamp::from_millisecond(now - 1_000).unwrap().to_string();
    assert_eq!(edges(&["--at", &time, "--json"]), 3);
    map(&["--dot"]).exits(0).says("digraph map");
    map(&["--mermaid"]).exits(0).says("flowchart LR");
    map(&["apu"]).exits(2).says("similar: api");
    map(&["--at", "2020-01-01T00:00:00Z"])
        .exits(5)
        .says("there are no observations of that time")
        .says("the last window of");
}

#[test]
fn a_saved_map_is_shown_compared_and_drawn() {
    let home = Home::new("map-save");
    let now = now_ms();
    alpha(&home.file("s"), now - 30 * MINUTE_MS);
    let save = |more: &[&str]| {
        let mut all = vec!["map", "--state", "s", "--save", "--json"];
        all.extend(more);
        home.run(&all).exits(0).json()["run"].as_str().unwrap().to_owned()
    };
    let before = save(&[]);
    let mut later = WindowBuilder::on("alpha", "10.0.0.1", now);
    later.flow(Side::Active, "cron", "127.0.0.1", "127.0.0.1", 5432, 1);
    later.flow(Side::Passive, "db", "127.0.0.1", "127.0.0.1", 5432, 1);
    later.record(&home.file("s"));
    let after = save(&[]);
    home.run(&["runs"]).exits(0).says("map,").says("nodes, ");
    home.run(&["show", &after]).exits(0).says("cron").says("5 nodes, 4 edges");
    home.run(&["diff", &before, &before]).exits(0).says("0 different");
    home.run(&["diff", &before, &after]).exits(1).says("+ cron").says("+ cron → db :5432").says("2 different");
    let page = home.run(&["report", &after, "-o", "page.html"]).exits(0);
    let html = std::fs::read_to_string(home.file("page.html")).unwrap_or_else(|e| panic!("{page:?}: {e}"));
    assert!(html.contains("cron") && html.contains("class=\"graph net"));
    home.run(&["export", &after]).exits(2).says("is a map");
    home.run(&["map", "--state", "s", "--beside", &after]).exits(2);
    let changed = home.run(&["map", "--state", "s", "--changed-since", "20m", "--last", "15m"]).exits(0);
    changed.says("+ cron → db :5432").says("− web → api :8080");
    home.run(&["map", "cron", "--state", "s", "--changed-since", "20m", "--last", "15m"]).exits(0).says("+ cron");
}

/// The commands of the guide that read a store.
fn guide_commands() -> Vec<String> {
    let guide = std::fs::read_to_string(repository().join("docs/guides/map.md")).unwrap();
    let other_sources = ["--now", "--database", "--hosts", "--beside"];
    let blocks = guide.split("\n```sh\n").skip(1).map(|rest| rest.split("\n```").next().unwrap_or_default());
    let line = |line: &str| line.split(['#', '|']).next().unwrap_or_default().trim().to_owned();
    blocks
        .flat_map(str::lines)
        .map(line)
        .filter(|line| line.starts_with("faultloom map") && !other_sources.iter().any(|word| line.contains(word)))
        .collect()
}

#[test]
fn the_commands_of_the_guide_work() {
    let home = Home::new("map-guide");
    let now = now_ms();
    for to_ms in [now, now - 24 * 60 * MINUTE_MS] {
        let mut builder = WindowBuilder::on("db1", "10.0.0.5", to_ms);
        let id = ProcessId { pid: 4711, start_ticks: 1 };
        for (from, to, port) in [("web", "checkout", 8080), ("checkout", "postgres", 5432)] {
            builder.flow(Side::Active, from, "10.0.0.5", "10.0.0.5", port, 3);
            builder.flow(Side::Passive, to, "10.0.0.5", "10.0.0.5", port, 3);
        }
        let postgres = builder.window.flows.last_mut().unwrap();
        postgres.process = Some(id);
        let service = postgres.service.clone();
        builder.window.processes.push(Process { id, service, netns: 1, comm: "postgres".into() });
        builder.record(&home.file("s"));
    }
    let commands = guide_commands();
    assert!(commands.len() >= 12, "{commands:?}");
    for command in commands {
        let mut arguments: Vec<&str> = command.split_whitespace().skip(1).collect();
        arguments.extend(["--state", "s"]);
        let ran = home.run(&arguments);
        // the times of the guide may be before the first window
        let is_past =
            ["--at", "--from"].iter().any(|option| arguments.contains(option)) && ran.status.code() == Some(5);
        if !is_past {
            ran.exits(0);
        }
    }
    for of in ["host:db1", "service:checkout", "10.0.0.5", "10.0.0.5:5432", ":5432", "pid:4711", "pid:4711@db1"] {
        home.run(&["map", of, "--state", "s"]).exits(0);
    }
}

#[test]
fn names_of_addresses_are_resolved_only_on_request() {
    let home = Home::new("map-resolve");
    let mut builder = WindowBuilder::on("alpha", "10.0.0.1", now_ms());
    for address in ["192.0.2.7", "192.0.2.8"] {
        builder.flow(Side::Active, "web", "10.0.0.1", address, 443, 1);
    }
    builder.record(&home.file("s"));
    // a name service with one address that records its queries
    let service = "#!/bin/sh\necho $2 >>queries\n[ $2 = 192.0.2.7 ] && echo $2 api.example\n";
    let program = home.write("getent", service);
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", home.file(".").display(), std::env::var("PATH").unwrap());
    let map = |more: &[&str]| {
        let mut command = home.command(&[&["map", "--state", "s"], more].concat());
        command.env("PATH", &path);
        Started::new(command).wait().exits(0).out
    };
    assert!(map(&[]).contains("192.0.2.7") && !home.file("queries").exists());
    let named = map(&["--resolve"]);
    assert!(named.contains("api.example (192.0.2.7)") && named.contains("192.0.2.8"), "{named}");
}
