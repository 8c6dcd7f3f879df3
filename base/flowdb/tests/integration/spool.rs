//! The spool: under failures of disk, process and database, each window is recorded once or counted as lost.

use crate::support::{Agent, Folder, SECOND, T0, all, skipped};
use flowdb::{FlowDb, Spool};
use flows::{Flow, Side, Window};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const LIMIT: u64 = 256 << 20;

/// Removes all windows, like an agent with an available database.
fn drain(spool: &mut Spool) -> Vec<Window> {
    let mut windows = Vec::new();
    loop {
        let batch = spool.oldest(60).unwrap();
        if batch.is_empty() {
            return windows;
        }
        spool.remove(batch.len()).unwrap();
        windows.extend(batch);
    }
}

fn busy_windows(agent: &mut Agent, count: i64) -> Vec<Window> {
    (0..count).map(|i| agent.busy(T0 + i * SECOND, 2)).collect()
}

fn sequences(windows: &[Window]) -> Vec<u64> {
    windows.iter().map(|window| window.sequence).collect()
}

#[test]
fn windows_are_returned_in_order_also_by_another_process() {
    let folder = Folder::new("spool-order");
    let windows = busy_windows(&mut Agent::new(1), 100);
    let mut spool = Spool::open(&folder.0, LIMIT).unwrap();
    assert_eq!(spool.oldest(60).unwrap(), []);
    windows[..70].iter().for_each(|window| spool.append(window).unwrap());
    assert_eq!(spool.oldest(60).unwrap(), &windows[..60]);
    assert_eq!(spool.oldest(10).unwrap(), &windows[..10], "the same until they are removed");
    spool.remove(10).unwrap();
    assert_eq!(spool.waiting(), 60);
    drop(spool);
    let mut spool = Spool::open(&folder.0, LIMIT).unwrap();
    windows[70..].iter().for_each(|window| spool.append(window).unwrap());
    assert_eq!(spool.waiting(), 100, "removed windows are returned again, because their file was not deleted");
    assert_eq!(drain(&mut spool), windows);
    assert_eq!((spool.waiting(), spool.dropped()), (0, 0));
    drop(spool);
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 0, "an empty spool leaves no file");
}

/// 3,600 windows of an agent with 1,000 services and 5,000 flows, a tenth of the services and of the hour: their files
/// fit.
#[test]
fn an_hour_of_a_thousand_services_fits() {
    let folder = Folder::new("spool-hour");
    let mut agent = Agent::new(1);
    let flows: Vec<Flow> = (0..500u32)
        .map(|i| agent.flow(Side::Active, "10.0.0.1", &format!("10.1.{}.{}", i / 250, i % 250), 80))
        .collect();
    let mut spool = Spool::open(&folder.0, LIMIT).unwrap();
    for second in 0..360u64 {
        let mut window = agent.window(T0 + second as i64 * SECOND);
        window.flows.clone_from(&flows);
        for (i, flow) in window.flows.iter_mut().enumerate() {
            flow.counts.sent = 1_000 + (second * 7 + i as u64 * 13) % 5_000;
            flow.counts.received = 10_000 + (second * 31 + i as u64 * 17) % 100_000;
        }
        spool.append(&window).unwrap();
    }
    let hour = spool.bytes() * 100;
    assert!(hour < LIMIT, "an hour takes {} MB", hour >> 20);
    assert_eq!(spool.dropped(), 0);
    let windows = drain(&mut spool);
    assert_eq!(sequences(&windows), (1..=360).collect::<Vec<u64>>());
    assert_eq!(windows[359].flows.len(), 500);
}

/// Services are described once. If that window is dropped, a later one contains the description.
#[test]
fn above_the_limit_the_oldest_are_dropped_and_their_data_is_carried_over() {
    let folder = Folder::new("spool-bound");
    let mut agent = Agent::new(1);
    let mut windows = busy_windows(&mut agent, 2_000);
    for window in &mut windows[1..] {
        window.services.clear();
        window.listeners = None;
    }
    windows[3].losses.recursion = 5;
    let mut spool = Spool::open(&folder.0, 64 << 10).unwrap();
    for window in &windows {
        spool.append(window).unwrap();
        assert!(spool.bytes() <= 64 << 10);
    }
    let dropped = spool.dropped();
    assert!(dropped > 500 && spool.waiting() + dropped == 2_000, "{dropped}");
    let left = drain(&mut spool);
    assert_eq!(sequences(&left), (dropped + 1..=2_000).collect::<Vec<u64>>());
    let described = left.iter().find(|window| !window.services.is_empty()).unwrap();
    assert_eq!((&described.services, &described.listeners), (&windows[0].services, &windows[0].listeners));
    assert_eq!(left.iter().map(|window| window.losses.recursion).sum::<u64>(), 5);
}

/// Windows are dropped while they are being recorded: returned windows are removed or stay, and no others are affected.
#[test]
fn windows_may_be_dropped_while_they_are_recorded() {
    let folder = Folder::new("spool-race");
    let windows = busy_windows(&mut Agent::new(1), 3_000);
    let mut spool = Spool::open(&folder.0, 64 << 10).unwrap();
    windows[..100].iter().for_each(|window| spool.append(window).unwrap());
    let returned = spool.oldest(60).unwrap();
    windows[100..].iter().for_each(|window| spool.append(window).unwrap());
    assert!(spool.dropped() > 500);
    spool.remove(returned.len()).unwrap();
    let left = drain(&mut spool);
    assert_eq!(sequences(&left), (3_001 - left.len() as u64..=3_000).collect::<Vec<u64>>());
    assert_eq!(returned.len() as u64 + spool.dropped() + left.len() as u64, 3_000);
}

#[test]
fn an_incomplete_record_is_ignored_and_a_damaged_file_is_counted() {
    let folder = Folder::new("spool-torn");
    let windows = busy_windows(&mut Agent::new(1), 400);
    let mut spool = Spool::open(&folder.0, 64 << 10).unwrap();
    windows[..20].iter().for_each(|window| spool.append(window).unwrap());
    drop(spool);
    let file = files(&folder.0).pop().unwrap();
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..bytes.len() - 3]).unwrap();
    let mut spool = Spool::open(&folder.0, 64 << 10).unwrap();
    assert_eq!(spool.waiting(), 19);
    windows[20..].iter().for_each(|window| spool.append(window).unwrap());
    assert!(files(&folder.0).len() > 3);
    // a flipped bit in the second file makes the rest of that file unreadable
    let second = &files(&folder.0)[1];
    let mut bytes = std::fs::read(second).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(second, bytes).unwrap();
    let left = drain(&mut spool);
    assert!(spool.dropped() > 0);
    assert_eq!(left.len() as u64 + spool.dropped(), 399);
    assert_eq!(left.last(), windows.last());
}

fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Runs this test program again as the agent that is killed.
#[test]
fn kill_9_loses_and_duplicates_nothing() {
    const FOLDER: &str = "FAULTLOOM_TEST_SPOOL";
    if let Some(folder) = std::env::var_os(FOLDER) {
        let mut spool = Spool::open(Path::new(&folder), LIMIT).unwrap();
        let mut agent = Agent::new(1);
        for i in 0.. {
            let window = agent.busy(T0 + i * SECOND, 2);
            spool.append(&window).unwrap();
            println!("appended {}", window.sequence);
        }
        return;
    }
    let folder = Folder::new("spool-killed");
    let mut acknowledged = 0;
    for round in 1..=3 {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "spool::kill_9_loses_and_duplicates_nothing", "--nocapture"]).env(FOLDER, &folder.0);
        let mut child = child.stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
        let mut appended = 0;
        while appended < 200 * round {
            let line = lines.next().expect("it appends until it is killed").unwrap();
            appended = line.strip_prefix("appended ").map_or(appended, |number| number.parse().unwrap());
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // windows in the pipe were acknowledged as well
        let rest = lines.map_while(Result::ok).filter_map(|line| line.strip_prefix("appended ")?.parse().ok());
        acknowledged += rest.last().unwrap_or(appended);
        let spool = Spool::open(&folder.0, LIMIT).unwrap();
        assert!((acknowledged..=acknowledged + 1).contains(&spool.waiting()), "{} of {acknowledged}", spool.waiting());
        acknowledged = spool.waiting();
    }
}

/// A small file system, unmounted on drop. None if mounting is not permitted.
struct SmallDisk(Folder);

impl SmallDisk {
    fn mount(name: &str) -> Option<SmallDisk> {
        let folder = Folder::new(name);
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=128k", "tmpfs"]).arg(&folder.0).output();
        if mounted.is_ok_and(|m| m.status.success()) {
            return Some(SmallDisk(folder));
        }
        skipped("mounting a small file system needs root");
        None
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0.0).status();
    }
}

#[test]
fn a_full_disk_is_reported_and_lost_data_is_carried_over() {
    let Some(disk) = SmallDisk::mount("spool-full") else { return };
    let mut agent = Agent::new(1);
    let mut spool = Spool::open(&disk.0.0, LIMIT).unwrap();
    // before
    let windows = busy_windows(&mut agent, 10);
    windows.iter().for_each(|window| spool.append(window).unwrap());
    // full
    let _ = std::fs::write(disk.0.0.join("ballast"), vec![0; 1 << 20]);
    let mut full = Vec::new();
    for i in 0.. {
        let mut window = agent.busy(T0 + i * SECOND, 2);
        window.services[0].name = format!("described only in window {i}");
        match spool.append(&window) {
            Ok(()) => assert!(i < 1_000, "the disk becomes full"),
            Err(failure) => {
                assert!(failure.to_string().contains("No space left") && failure.next.is_some(), "{failure}");
                full.push(window);
            }
        }
        if full.len() == 5 {
            break;
        }
    }
    // after
    std::fs::remove_file(disk.0.0.join("ballast")).unwrap();
    let mut last = agent.window(T0 + 5_000 * SECOND);
    last.services.clear();
    spool.append(&last).unwrap();
    let left = drain(&mut spool);
    assert_eq!(sequences(&left).len() as u64, last.sequence - 5);
    let described = left.last().unwrap();
    assert_eq!((described.sequence, &described.services), (last.sequence, &full[4].services));
    assert_eq!(described.listeners, full[4].listeners);
    drop(spool);
}

/// The database becomes unavailable and available again; the agent is killed at the worst moment, between recording and
/// removing.
async fn survives_an_outage(name: &str, url: &str, mut set_unavailable: impl FnMut(bool)) {
    let folder = Folder::new(name);
    let mut agent = Agent::new(1);
    let mut spool = Spool::open(&folder.0, LIMIT).unwrap();
    let record = async |flowdb: &FlowDb, spool: &mut Spool| -> Result<usize, model::Failure> {
        let mut recorded = 0;
        loop {
            let batch = spool.oldest(60)?;
            if batch.is_empty() {
                return Ok(recorded);
            }
            recorded += flowdb.record(&batch).await?;
            spool.remove(batch.len())?;
        }
    };
    // before the outage
    let flowdb = FlowDb::open_with_timeout(url, Duration::from_secs(1)).await.unwrap();
    for i in 0..10 {
        spool.append(&agent.busy(T0 + i * SECOND, 2)).unwrap();
        assert_eq!(record(&flowdb, &mut spool).await.unwrap(), 1);
    }
    // during the outage
    set_unavailable(true);
    for i in 10..310 {
        spool.append(&agent.busy(T0 + i * SECOND, 2)).unwrap();
        if i % 100 == 10 {
            let failure = record(&flowdb, &mut spool).await.unwrap_err();
            assert!(failure.next.is_some(), "{failure}");
        }
    }
    assert_eq!(spool.waiting(), 300);
    // after the outage
    set_unavailable(false);
    assert_eq!(flowdb.record(&spool.oldest(60).unwrap()).await.unwrap(), 60);
    std::mem::forget(spool);
    let mut spool = Spool::open(&folder.0, LIMIT).unwrap();
    assert_eq!(record(&flowdb, &mut spool).await.unwrap(), 240);
    let slice = all(&flowdb).await;
    assert_eq!(slice.hosts[0].flows.iter().map(|flow| flow.counts.opened).collect::<Vec<_>>(), [930, 930]);
    flowdb.close().await;
}

/// Another process holds the lock of the file.
#[tokio::test(flavor = "multi_thread")]
async fn an_outage_of_sqlite_loses_nothing() {
    let folder = Folder::new("outage-sqlite");
    let file = folder.file("flowdb.db");
    let mut holder: Option<std::process::Child> = None;
    let script = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None); \
        c.execute('BEGIN EXCLUSIVE'); print('held', flush=True); sys.stdin.read()";
    let at = file.clone();
    survives_an_outage("spool-sqlite", &file, move |unavailable| {
        if unavailable {
            let mut python = Command::new("python3");
            python.args(["-c", script, &at]).stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
            let mut child = python.spawn().unwrap();
            let mut line = String::new();
            std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.as_mut().unwrap()), &mut line)
                .unwrap();
            assert_eq!(line, "held\n");
            holder = Some(child);
        } else if let Some(mut child) = holder.take() {
            drop(child.stdin.take());
            child.wait().unwrap();
        }
    })
    .await;
}

#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread")]
async fn an_outage_of_postgresql_loses_nothing() {
    let Some(mut cluster) = crate::support::postgres::Cluster::own("outage") else { return };
    let url = cluster.database("flowdb");
    survives_an_outage("spool-postgres", &url, |unavailable| if unavailable { cluster.down() } else { cluster.up() })
        .await;
}

/// PostgreSQL rejects a name that is too long for an index entry.
#[cfg(feature = "postgres")]
#[tokio::test]
async fn a_rejected_window_is_stored_separately_and_the_next_is_recorded() {
    let Some(cluster) = crate::support::postgres::Cluster::shared() else { return };
    let flowdb = FlowDb::open(&cluster.database("refused")).await.unwrap();
    let folder = Folder::new("spool-refused");
    let mut spool = Spool::open(&folder.0, LIMIT).unwrap();
    let mut windows = busy_windows(&mut Agent::new(1), 3);
    let name: String = (0..1000).map(|_| uuid::Uuid::now_v7().to_string()).collect();
    let too_long = crate::support::service(&windows[1].host.id, flows::ServiceKind::Unit, &name);
    windows[1].services.push(too_long);
    windows[1].losses.recursion = 9;
    windows.iter().for_each(|window| spool.append(window).unwrap());
    let rejected = flowdb.record(&spool.oldest(60).unwrap()).await.unwrap_err();
    assert_eq!(rejected.family, model::Family::Request, "{rejected}");
    assert_eq!(all(&flowdb).await.hosts, [], "the whole batch is rejected");
    for fits in [true, false, true] {
        let window = spool.oldest(1).unwrap();
        assert_eq!(flowdb.record(&window).await.is_ok(), fits);
        if fits { spool.remove(1).unwrap() } else { spool.reject_oldest().unwrap() }
    }
    assert_eq!((spool.waiting(), spool.dropped()), (0, 1));
    assert_eq!(all(&flowdb).await.hosts[0].flows[0].counts.opened, 6, "the first and the third window");
    let next = Agent::new(1).busy(T0, 2);
    spool.append(&next).unwrap();
    assert_eq!(drain(&mut spool)[0].losses.recursion, 9, "its losses are carried over to the next window");
    drop(spool);
    let stored = std::fs::read_to_string(folder.0.join(flowdb::spool::REFUSED)).unwrap();
    assert_eq!(serde_json::from_str::<Window>(&stored).unwrap(), windows[1]);
    // that file is not part of the spool
    assert_eq!(Spool::open(&folder.0, LIMIT).unwrap().waiting(), 0);
    an_unavailable_database_rejects_nothing(&flowdb).await;
}

#[cfg(feature = "postgres")]
async fn an_unavailable_database_rejects_nothing(flowdb: &FlowDb) {
    flowdb.close().await;
    let failure = flowdb.record(&busy_windows(&mut Agent::new(2), 1)).await.unwrap_err();
    assert_eq!(failure.family, model::Family::Environment, "{failure}");
}
