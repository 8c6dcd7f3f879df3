//! Contract of the database, tested on every kind.

use crate::support::database::each_database;
use crate::support::{Agent, DAY, HOUR, MINUTE, SECOND, T0, all};
use flowdb::{FlowDb, Retention};
use flows::{Counts, ListenAddress, Losses, Side, Slice};
use std::time::Duration;

#[tokio::test]
async fn a_slice_equals_the_recorded_windows() {
    for database in each_database("windows").await {
        let flowdb = database.open().await;
        assert_eq!(all(&flowdb).await.hosts, []);
        let mut agent = Agent::new(1);
        let window = agent.busy(T0, 2);
        assert_eq!(flowdb.record(std::slice::from_ref(&window)).await.unwrap(), 1);
        let Slice { from_ms, to_ms, hosts } = flowdb.slice(T0, T0).await.unwrap();
        assert_eq!((from_ms, to_ms), (T0, T0 + MINUTE), "the minute of that time");
        let [host] = &hosts[..] else { panic!("{hosts:?}") };
        assert_eq!(host.host, window.host);
        assert_eq!(host.services, window.services);
        assert_eq!(host.processes, window.processes);
        assert_eq!(Some(&host.listeners), window.listeners.as_ref());
        let mut flows = host.flows.clone();
        flows.sort_by_key(|flow| flow.side == Side::Active);
        assert_eq!(flows, window.flows);
        assert_eq!(host.last_seen_ms, window.to_ms);
        let hosts = flowdb.hosts().await.unwrap();
        assert_eq!((hosts.len(), &hosts[0].id, hosts[0].last_ms), (1, &window.host.id, window.to_ms));
    }
}

#[tokio::test]
async fn counts_add_up_and_each_window_counts_once() {
    for database in each_database("once").await {
        let flowdb = database.open().await;
        let mut agent = Agent::new(1);
        let windows: Vec<_> = (0..90).map(|i| agent.busy(T0 + i * SECOND, 2)).collect();
        assert_eq!(flowdb.record(&windows[..50]).await.unwrap(), 50);
        assert_eq!(flowdb.record(&windows[40..]).await.unwrap(), 40, "ten were recorded before");
        assert_eq!(flowdb.record(&windows).await.unwrap(), 0);
        // a later window does not hide an earlier one that is recorded after it
        let (early, late) = (agent.busy(T0 + 90 * SECOND, 2), agent.busy(T0 + 91 * SECOND, 2));
        assert_eq!(flowdb.record(&[late]).await.unwrap(), 1);
        assert_eq!(flowdb.record(&[early]).await.unwrap(), 1);
        let sum = |slice: &Slice| slice.hosts[0].flows.iter().map(|flow| flow.counts.opened).collect::<Vec<_>>();
        assert_eq!(sum(&all(&flowdb).await), [92 * 3, 92 * 3]);
        assert_eq!(sum(&flowdb.slice(T0, T0 + MINUTE).await.unwrap()), [60 * 3, 60 * 3]);
        assert_eq!(sum(&flowdb.slice(T0 + MINUTE, T0 + MINUTE).await.unwrap()), [32 * 3, 32 * 3]);
        assert_eq!(all(&flowdb).await.hosts[0].flows[0].counts.open, 1, "not a sum");
    }
}

#[tokio::test]
async fn ended_entities_appear_in_slices_of_their_time() {
    for database in each_database("gone").await {
        let flowdb = database.open().await;
        let mut agent = Agent::new(1);
        let mut windows = vec![agent.window(T0), agent.window(T0 + 5 * MINUTE), agent.window(T0 + 10 * MINUTE)];
        windows[0].listeners = Some(vec![agent.listener("0.0.0.0", 80), agent.listener("::", 81)]);
        windows[2].listeners = Some(vec![agent.listener("0.0.0.0", 80)]);
        windows[1].host.addresses[0].ip = "fd00::1".parse().unwrap();
        windows[2].host.addresses[0].ip = "fd00::1".parse().unwrap();
        flowdb.record(&windows).await.unwrap();
        // present again, then no further window
        let mut back = agent.window(T0 + 20 * MINUTE);
        back.listeners = Some(vec![agent.listener("0.0.0.0", 80), agent.listener("::", 81)]);
        back.host.addresses.clear();
        flowdb.record(&[back]).await.unwrap();
        let at = async |minute: i64| {
            let slice = flowdb.slice(T0 + minute * MINUTE, T0 + minute * MINUTE).await.unwrap();
            let host = slice.hosts.into_iter().next();
            host.map(|h| (h.listeners.len(), h.host.addresses.iter().map(|a| a.ip.to_string()).collect::<Vec<_>>()))
        };
        let own = "10.0.0.1".to_owned();
        assert_eq!(at(-1).await, None);
        assert_eq!(at(0).await, Some((2, vec![own.clone()])));
        assert_eq!(at(4).await, Some((2, vec![own])));
        assert_eq!(at(7).await, Some((2, vec!["fd00::1".to_owned()])));
        assert_eq!(at(12).await, Some((1, vec!["fd00::1".to_owned()])));
        assert_eq!(at(20).await.map(|(listeners, _)| listeners), Some(2));
        assert_eq!(at(21).await, None, "no further window");
    }
}

#[tokio::test]
async fn every_kind_of_address_and_name_survives_a_round_trip() {
    for database in each_database("names").await {
        let flowdb = database.open().await;
        let mut agent = Agent::new(1);
        agent.web.name = "a 'name' \"with\" everything\n\u{1F980} % $1".to_owned();
        let mut window = agent.busy(T0, 2);
        let mut unix = agent.flow(Side::Active, "::1", "::1", 1);
        unix.link.active = None;
        unix.link.protocol = flows::Protocol::Unix;
        unix.link.passive = ListenAddress::Path("@abstract\0name".to_owned());
        unix.process = None;
        let mut v6 = agent.flow(Side::Active, "fe80::1", "2001:db8::ffff", 65_535);
        v6.translated = Some(ListenAddress::Inet { ip: "10.1.2.3".parse().unwrap(), port: 8080 });
        v6.counts.sent = u64::MAX;
        v6.counts.received = u64::from(u32::MAX) + 1;
        window.flows = vec![unix.clone(), v6.clone()];
        flowdb.record(std::slice::from_ref(&window)).await.unwrap();
        let mut again = agent.window(T0 + SECOND);
        again.flows = vec![v6.clone()];
        flowdb.record(&[again]).await.unwrap();
        let slice = all(&flowdb).await;
        assert_eq!(slice.hosts[0].services, window.services);
        let flows = &slice.hosts[0].flows;
        assert_eq!(flows.len(), 2);
        let found = flows.iter().find(|flow| flow.link == v6.link).unwrap();
        assert_eq!((&found.translated, found.counts.received), (&v6.translated, 2 * v6.counts.received));
        assert_eq!(found.counts.sent, 2 << 53, "clamped, without overflow");
        let found = flows.iter().find(|flow| flow.process.is_none()).unwrap();
        assert_eq!(found.link.passive, ListenAddress::Path("@abstract\u{FFFD}name".to_owned()), "NUL is replaced");
    }
}

/// After a clock was set back, the same minutes occur again; nothing is duplicated or lost.
#[tokio::test]
async fn windows_after_a_clock_jump_are_stored_in_their_minutes() {
    for database in each_database("clock").await {
        let flowdb = database.open().await;
        let mut agent = Agent::new(1);
        for from_ms in [T0 + HOUR, T0 + HOUR + SECOND, T0, T0 + SECOND, T0 + HOUR, T0 - 3 * HOUR] {
            let window = agent.busy(from_ms, 2);
            assert_eq!(flowdb.record(std::slice::from_ref(&window)).await.unwrap(), 1);
            assert_eq!(flowdb.record(&[window]).await.unwrap(), 0);
        }
        let opened = async |at: i64| flowdb.slice(at, at).await.unwrap().hosts[0].flows[0].counts.opened;
        assert_eq!([opened(T0).await, opened(T0 + HOUR).await, opened(T0 - 3 * HOUR).await], [6, 9, 3]);
    }
}

/// Pids are reused after each boot.
#[tokio::test]
async fn a_pid_of_another_boot_is_another_process() {
    for database in each_database("boot").await {
        let flowdb = database.open().await;
        let mut agent = Agent::new(1);
        flowdb.record(&[agent.busy(T0, 2)]).await.unwrap();
        agent.host.boot = "boot-2".to_owned();
        flowdb.record(&[agent.busy(T0 + MINUTE, 2)]).await.unwrap();
        let slice = all(&flowdb).await;
        let boots: Vec<_> =
            slice.hosts.iter().map(|h| (h.host.boot.as_str(), h.processes.len(), h.flows.len())).collect();
        assert_eq!(boots, [("boot-1", 1, 2), ("boot-2", 1, 2)]);
        assert_eq!(flowdb.slice(T0, T0).await.unwrap().hosts.len(), 1);
        assert_eq!(flowdb.hosts().await.unwrap().len(), 1, "still one host");
    }
}

#[tokio::test]
async fn losses_are_added_up_per_host() {
    for database in each_database("losses").await {
        let flowdb = database.open().await;
        let (mut one, mut two) = (Agent::new(1), Agent::new(2));
        let mut windows = vec![one.window(T0), one.window(T0 + SECOND), one.window(T0 + MINUTE), two.window(T0)];
        for window in &mut windows[..3] {
            window.losses.table_full = 5;
            window.losses.windows = 1;
            window.losses.closed_unseen = 2;
            window.losses.between_polls = 3;
        }
        flowdb.record(&windows).await.unwrap();
        let losses = async |from, to| {
            let slice = flowdb.slice(from, to).await.unwrap();
            slice.hosts.iter().map(|host| host.losses).collect::<Vec<_>>()
        };
        let sum = Losses { table_full: 15, windows: 3, closed_unseen: 6, between_polls: 9, ..Losses::default() };
        assert_eq!(losses(T0, T0 + HOUR).await, [sum, Losses::default()]);
        assert_eq!(losses(T0 + MINUTE, T0 + MINUTE).await[0], windows[2].losses);
    }
}

#[tokio::test]
async fn minutes_are_merged_into_hours_and_old_hours_are_deleted() {
    for database in each_database("retain").await {
        let flowdb = database.open().await;
        let mut agent = Agent::new(1);
        let mut windows: Vec<_> = (0..180).map(|i| agent.busy(T0 + i * MINUTE, 2)).collect();
        windows[0].losses.recursion = 7;
        (windows[1].losses.closed_unseen, windows[2].losses.between_polls) = (8, 9);
        windows[59].flows[0].counts.open = 42;
        flowdb.record(&windows).await.unwrap();
        let sums = async |flowdb: &FlowDb| {
            let slice = flowdb.slice(T0, T0 + HOUR).await.unwrap();
            let mut counts: Vec<Counts> = slice.hosts[0].flows.iter().map(|flow| flow.counts).collect();
            counts.sort_by_key(|counts| counts.open);
            (counts, slice.hosts[0].losses)
        };
        let before = sums(&flowdb).await;
        let losses = Losses { recursion: 7, closed_unseen: 8, between_polls: 9, ..Losses::default() };
        assert_eq!((before.0[1].open, before.1), (42, losses));
        let retention = Retention { minutes: Duration::from_secs(3600), hours: Duration::from_secs(86_400) };
        flowdb.retain(&retention, T0 + 2 * HOUR + 30 * MINUTE).await.unwrap();
        assert_eq!(sums(&flowdb).await, before);
        // each minute returns its hour, and a late window is added to the hour
        let slice = flowdb.slice(T0 + 10 * MINUTE, T0 + 10 * MINUTE).await.unwrap();
        assert_eq!(slice.hosts[0].flows[0].counts.opened, 180);
        flowdb.record(&[agent.busy(T0 + 5 * MINUTE, 2)]).await.unwrap();
        flowdb.retain(&retention, T0 + 2 * HOUR + 30 * MINUTE).await.unwrap();
        assert_eq!(sums(&flowdb).await.0[0].opened, 183);
        assert_eq!(flowdb.slice(T0 + 2 * HOUR, T0 + 2 * HOUR).await.unwrap().hosts[0].flows[0].counts.opened, 3);
        flowdb.retain(&retention, T0 + 10 * DAY).await.unwrap();
        assert_eq!((all(&flowdb).await.hosts.len(), flowdb.hosts().await.unwrap().len()), (0, 0));
    }
}

#[tokio::test]
async fn deletion_keeps_newer_data() {
    for database in each_database("forget").await {
        let flowdb = database.open().await;
        let (mut old, mut new) = (Agent::new(1), Agent::new(2));
        flowdb.record(&[old.busy(T0 - 3 * DAY, 2), new.busy(T0 - 3 * DAY, 1), new.busy(T0, 1)]).await.unwrap();
        flowdb.forget(T0 - DAY).await.unwrap();
        assert_eq!(
            flowdb.slice(T0 - 4 * DAY, T0 - DAY).await.unwrap().hosts.iter().map(|h| h.flows.len()).sum::<usize>(),
            0
        );
        let slice = all(&flowdb).await;
        let [host] = &slice.hosts[..] else { panic!("{slice:?}") };
        assert_eq!((host.host.name.as_str(), host.flows.len(), host.services.len()), ("web-2", 2, 1));
        assert_eq!(flowdb.hosts().await.unwrap().len(), 1);
    }
}

/// Many agents record at once, some of them twice: nothing deadlocks, nothing is duplicated.
#[tokio::test(flavor = "multi_thread")]
async fn many_agents_record_at_once() {
    for database in each_database("many").await {
        let mut writers = Vec::new();
        for number in 0..16u8 {
            let (flowdb, mut agent) = (database.open().await, Agent::new(number / 2));
            agent.run = uuid::Uuid::from_u128(u128::from(number / 2) + 1); // two send the same windows
            writers.push(tokio::spawn(async move {
                let mut fresh = 0;
                for i in 0..30 {
                    let windows = [agent.busy(T0 + 2 * i * SECOND, 2), agent.busy(T0 + (2 * i + 1) * SECOND, 2)];
                    fresh += flowdb.record(&windows).await.unwrap();
                }
                flowdb.close().await;
                fresh
            }));
        }
        let mut fresh = 0;
        for writer in writers {
            fresh += writer.await.unwrap();
        }
        assert_eq!(fresh, 8 * 60);
        let slice = all(&database.open().await).await;
        assert_eq!(slice.hosts.len(), 8);
        for host in &slice.hosts {
            assert_eq!(host.flows.iter().map(|flow| flow.counts.opened).collect::<Vec<_>>(), [180, 180]);
        }
    }
}
