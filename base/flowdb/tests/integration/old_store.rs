//! A database and a spool that 0.1.0 wrote, before types and fields had their present names, are read and continued.
//!
//! `tests/stores/0.1.0/map.db` has two windows of one host, an hour apart: front → ads, front → cart → stock, and then
//! front → cart → stock, cart → redis. `spool` has the second one again, and one with losses and a translated flow.

use crate::support::{Folder, HOUR, MINUTE, T0};
use flowdb::{FlowDb, Spool};
use flows::{Attribution, Counts, HostSlice, ListenAddress, Losses, ProcessId, Protocol, ServiceKind, Side, Source};
use std::path::Path;

/// A copy, because opening a store writes to it.
fn copy(name: &str) -> Folder {
    let folder = Folder::new(name);
    let stored = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stores/0.1.0");
    std::fs::copy(stored.join("map.db"), folder.0.join("map.db")).unwrap();
    std::fs::create_dir(folder.0.join("spool")).unwrap();
    for entry in std::fs::read_dir(stored.join("spool")).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), folder.0.join("spool").join(entry.file_name())).unwrap();
    }
    folder
}

/// `front → 127.0.0.1:23412 3`, as counted at the active side.
fn dependencies(host: &HostSlice) -> Vec<String> {
    let name = |flow: &flows::Flow| {
        host.services.iter().find(|service| service.key == flow.service).map_or("?", |service| service.name.as_str())
    };
    let active = host.flows.iter().filter(|flow| flow.side == Side::Active);
    let mut lines: Vec<String> =
        active.map(|flow| format!("{} → {} {}", name(flow), flow.link.passive, flow.counts.opened)).collect();
    lines.sort_unstable();
    lines
}

#[tokio::test]
async fn a_database_of_0_1_0_is_read() {
    let folder = copy("old-database");
    let flowdb = FlowDb::read(&folder.file("map.db")).await.unwrap();
    let slice = flowdb.slice(T0, T0 + MINUTE).await.unwrap();
    let [host] = &slice.hosts[..] else { panic!("{slice:?}") };
    assert_eq!((host.host.name.as_str(), host.host.id.0.as_str()), ("web-1", "0123456789abcdef0123456789abcdef"));
    assert_eq!(
        dependencies(host),
        ["cart → 127.0.0.1:23413 4", "front → 127.0.0.1:23411 2", "front → 127.0.0.1:23412 3"]
    );
    let mut processes: Vec<(ProcessId, &str)> = host.processes.iter().map(|p| (p.id, p.comm.as_str())).collect();
    processes.sort_unstable();
    let expected = [(100, "front"), (101, "ads"), (102, "cart"), (103, "stock")];
    assert_eq!(processes, expected.map(|(pid, comm)| (ProcessId { pid, start_ticks: 7 }, comm)));
    let flow = host.flows.iter().find(|flow| flow.link.passive.to_string().ends_with(":23413")).unwrap();
    assert_eq!((flow.source, flow.attribution, flow.link.protocol), (Source::Ebpf, Attribution::Exact, Protocol::Tcp));
    let counts = Counts { opened: 4, established: 4, failed: 0, closed: 3, open: 1, sent: 400, received: 800 };
    assert_eq!(flow.counts, counts);
    assert_eq!(host.listeners.len(), 4);
    flowdb.close().await;
}

#[tokio::test]
async fn a_spool_of_0_1_0_is_recorded_into_its_database() {
    let folder = copy("old-spool");
    let mut spool = Spool::open(&folder.0.join("spool"), 256 << 20).unwrap();
    assert_eq!(spool.waiting(), 2);
    let windows = spool.oldest(60).unwrap();
    assert_eq!(windows.iter().map(|window| window.sequence).collect::<Vec<_>>(), [2, 3]);
    let last = &windows[1];
    let none = Losses::default();
    assert_eq!(last.losses, Losses { table_full: 1, recursion: 2, windows: 3, unreadable: 4, ..none });
    let translated = last.flows.iter().find(|flow| flow.translated.is_some()).unwrap();
    assert_eq!(translated.translated, Some(ListenAddress::Path("@queue".into())));
    assert_eq!(translated.link.passive, ListenAddress::Path("/run/queue".into()));
    assert_eq!((translated.source, translated.attribution), (Source::Polling, Attribution::Listener));
    assert_eq!(last.processes[4].id, ProcessId { pid: 104, start_ticks: 7 });

    let flowdb = FlowDb::open(&folder.file("map.db")).await.unwrap();
    assert_eq!(flowdb.record(&windows).await.unwrap(), 1, "the database has the first one");
    spool.remove(2).unwrap();
    let slice = flowdb.slice(T0 + HOUR, T0 + HOUR + MINUTE).await.unwrap();
    let [host] = &slice.hosts[..] else { panic!("{slice:?}") };
    let redis = host.services.iter().find(|service| service.name == "redis").unwrap();
    assert_eq!((redis.kind, redis.unit.as_deref()), (ServiceKind::Unit, Some("redis.service")));
    let expected =
        ["cart → /run/queue 1", "cart → 127.0.0.1:23413 4", "cart → 127.0.0.1:6379 11", "front → 127.0.0.1:23412 3"];
    assert_eq!(dependencies(host), expected);
    assert_eq!(host.losses, last.losses);
    // the database has the columns of this version now
    let mut next = last.clone();
    (next.sequence, next.losses) = (4, Losses { closed_unseen: 5, between_polls: 6, ..none });
    assert_eq!(flowdb.record(&[next]).await.unwrap(), 1);
    let slice = flowdb.slice(T0 + HOUR, T0 + HOUR + MINUTE).await.unwrap();
    assert_eq!(slice.hosts[0].losses, Losses { closed_unseen: 5, between_polls: 6, ..last.losses });
    flowdb.close().await;
}
