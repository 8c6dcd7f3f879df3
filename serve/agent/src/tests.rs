//! Windows to test with, and the daemon on a host made of numbers.

use crate::*;
use flows::*;
use model::Failure;
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn host() -> Host {
    Host { id: HostId("h".to_owned()), name: "h".to_owned(), boot: "b".to_owned(), addresses: Vec::new() }
}

fn flow(opened: u64) -> Flow {
    let ip = "127.0.0.1".parse().unwrap();
    Flow {
        side: Side::Active,
        service: ServiceKey::of(&HostId("h".to_owned()), ServiceKind::Program, "curl"),
        process: None,
        netns: 1,
        link: Link { protocol: Protocol::Tcp, active: Some(ip), passive: Passive::Inet { ip, port: 80 } },
        translated: None,
        source: Source::Ebpf,
        attribution: Attribution::Exact,
        counts: Counts { opened, ..Counts::default() },
    }
}

pub fn window(sequence: u64, flows: usize) -> Window {
    Window {
        agent: uuid::Uuid::nil(),
        sequence,
        from_ms: 0,
        to_ms: 1_000,
        host: host(),
        source: Source::Ebpf,
        services: Vec::new(),
        processes: Vec::new(),
        listeners: None,
        flows: vec![flow(1); flows],
        losses: Losses::default(),
    }
}

/// Sees seven new connections whenever it looks, and nothing at every third look.
#[derive(Default)]
struct Numbers {
    looks: u64,
}

impl Observer for Numbers {
    fn source(&self) -> Source {
        Source::Ebpf
    }

    fn look(&mut self) -> Result<Seen, Failure> {
        self.looks += 1;
        if self.looks.is_multiple_of(3) {
            return Err(Failure::environment("the kernel does not answer"));
        }
        let (services, processes, losses) = (Vec::new(), Vec::new(), Losses::default());
        Ok(Seen { host: host(), services, processes, listeners: None, flows: vec![flow(7)], losses })
    }
}

#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<Window>>>);

impl Shelf for Kept {
    async fn record(&self, windows: &[Window]) -> Result<(), Failure> {
        self.0.lock().unwrap().extend_from_slice(windows);
        Ok(())
    }
}

impl Store for Kept {
    async fn tidy(&self, _: i64) -> Result<(), Failure> {
        Ok(())
    }
}

#[derive(Default)]
struct Ears {
    windows: u64,
    words: Vec<String>,
}

impl Audience for Ears {
    fn window(&mut self, _: &Window) {
        self.windows += 1;
    }
    fn tell(&mut self, words: &str) {
        self.words.push(words.to_owned());
    }
}

async fn run(once: bool, seconds: u64) -> (Ears, Vec<Window>, String) {
    let state = std::env::temp_dir().join(format!("faultloom-daemon-{}-{once}", std::process::id()));
    std::fs::create_dir_all(&state).unwrap();
    let kept = Kept::default();
    let interval = Duration::from_secs(1);
    let settings = Settings { interval, once, state: state.clone() };
    let daemon = Daemon::new(Numbers::default(), kept.clone(), None, settings, Ears::default());
    let ears = daemon.run(tokio::time::sleep(Duration::from_millis(seconds * 1_000 + 500))).await.unwrap();
    let counters = std::fs::read_to_string(state.join(metrics::FILE)).unwrap();
    std::fs::remove_dir_all(&state).unwrap();
    let windows = kept.0.lock().unwrap().clone();
    (ears, windows, counters)
}

#[tokio::test(start_paused = true)]
async fn a_look_that_fails_is_told_once_and_costs_nothing_else() {
    let (ears, windows, counters) = run(false, 10).await;
    // looks at 0, 1 … 10 s and at the end: twelve, of which every third failed
    assert_eq!(windows.iter().map(|w| w.sequence).collect::<Vec<u64>>(), (1..=8).collect::<Vec<u64>>());
    assert_eq!(ears.windows, 8);
    assert!(counters.contains("faultloom_agent_connection_ends_opened_total 56\n"), "{counters}");
    assert!(counters.contains("{part=\"collector\"} 4\n"), "{counters}");
    assert!(ears.words[0].contains("the kernel does not answer"), "{:?}", ears.words);
    assert!(ears.words[1].contains("works again"), "{:?}", ears.words);
    assert!(windows.windows(2).all(|pair| pair[0].to_ms == pair[1].from_ms), "no gap between windows");
}

#[tokio::test(start_paused = true)]
async fn once_is_one_window() {
    let (ears, windows, _) = run(true, 10).await;
    assert_eq!((ears.windows, windows.len()), (1, 1));
}
