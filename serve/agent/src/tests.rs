//! Test windows and a test store, and the daemon with a test observer.

use crate::stores::WindowStore;
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
        link: Link { protocol: Protocol::Tcp, active: Some(ip), passive: ListenAddress::Inet { ip, port: 80 } },
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

/// Observes seven new connections in each call. Every third call fails.
#[derive(Default)]
struct TestObserver {
    calls: u64,
}

impl Observer for TestObserver {
    fn source(&self) -> Source {
        Source::Ebpf
    }

    fn collect(&mut self) -> Result<Observation, Failure> {
        self.calls += 1;
        if self.calls.is_multiple_of(3) {
            return Err(Failure::environment("the kernel does not answer"));
        }
        let (services, processes, losses) = (Vec::new(), Vec::new(), Losses::default());
        Ok(Observation { host: host(), services, processes, listeners: None, flows: vec![flow(7)], losses })
    }
}

/// Keeps windows in memory. Clones share their state.
#[derive(Clone, Default)]
pub struct TestStore {
    windows: Arc<Mutex<Vec<Window>>>,
    /// What the store fails with now.
    failure: Arc<Mutex<Option<&'static str>>>,
    /// Sequence numbers of rejected windows.
    rejected: Vec<u64>,
}

impl TestStore {
    pub fn rejecting(sequences: &[u64]) -> TestStore {
        TestStore { rejected: sequences.to_vec(), ..TestStore::default() }
    }

    pub fn fail_with(&self, what: &'static str) {
        *self.failure.lock().unwrap() = Some(what);
    }

    pub fn recover(&self) {
        *self.failure.lock().unwrap() = None;
    }

    pub fn windows(&self) -> Vec<Window> {
        self.windows.lock().unwrap().clone()
    }

    pub fn sequences(&self) -> Vec<u64> {
        self.windows().iter().map(|window| window.sequence).collect()
    }
}

impl WindowStore for TestStore {
    async fn record(&mut self, windows: &[Arc<Window>]) -> Result<(), Failure> {
        if let Some(what) = *self.failure.lock().unwrap() {
            return Err(Failure::environment(what));
        }
        if windows.iter().any(|window| self.rejected.contains(&window.sequence)) {
            return Err(Failure::request("the database rejects the content of a window"));
        }
        self.windows.lock().unwrap().extend(windows.iter().map(|window| (**window).clone()));
        Ok(())
    }

    async fn remove_expired(&mut self, _now_ms: i64) -> Result<(), Failure> {
        Ok(())
    }
}

#[derive(Default)]
struct TestReporter {
    windows: u64,
    messages: Vec<String>,
}

impl Reporter for TestReporter {
    fn window(&mut self, _: &Window) {
        self.windows += 1;
    }

    fn message(&mut self, text: &str) {
        self.messages.push(text.to_owned());
    }
}

async fn run(once: bool, seconds: u64) -> (TestReporter, Vec<Window>, String) {
    let state = std::env::temp_dir().join(format!("faultloom-daemon-{}-{once}", std::process::id()));
    std::fs::create_dir_all(&state).unwrap();
    let store = TestStore::default();
    let settings = Settings { interval: Duration::from_secs(1), once, state: state.clone() };
    let daemon = Daemon::new(TestObserver::default(), store.clone(), None, settings, TestReporter::default());
    let reporter = daemon.run(tokio::time::sleep(Duration::from_millis(seconds * 1_000 + 500))).await;
    let counters = std::fs::read_to_string(state.join(metrics::FILE)).unwrap();
    std::fs::remove_dir_all(&state).unwrap();
    (reporter, store.windows(), counters)
}

#[tokio::test(start_paused = true)]
async fn a_failed_collection_is_reported_once_and_loses_nothing_else() {
    let (reporter, windows, counters) = run(false, 10).await;
    // collections at 0, 1 … 10 s and at the end: twelve, of which every third fails
    assert_eq!(windows.iter().map(|w| w.sequence).collect::<Vec<u64>>(), (1..=8).collect::<Vec<u64>>());
    assert_eq!(reporter.windows, 8);
    assert!(counters.contains("faultloom_agent_connection_ends_opened_total 56\n"), "{counters}");
    assert!(counters.contains("{part=\"collector\"} 4\n"), "{counters}");
    assert!(reporter.messages[0].contains("the kernel does not answer"), "{:?}", reporter.messages);
    assert!(reporter.messages[1].contains("works again"), "{:?}", reporter.messages);
    assert!(windows.windows(2).all(|pair| pair[0].to_ms == pair[1].from_ms), "no gap between windows");
}

#[tokio::test(start_paused = true)]
async fn once_is_one_window() {
    let (reporter, windows, _) = run(true, 10).await;
    assert_eq!((reporter.windows, windows.len()), (1, 1));
}
