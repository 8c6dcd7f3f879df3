//! The three use cases of `map`: each takes one spec, emits events and ends when it is canceled.

use app::event::Progress;
use app::kinds::map::{
    BesideSpec, ChangedSinceSpec, HostQuery, MapSpec, Observed, Observing, Range, beside, changed_since, draw,
};
use app::{Context, Event};
use flows::{Host, HostId, HostSlice, Losses, Service, ServiceKey, ServiceKind, Slice};
use model::{Family, KindName, Verdict};
use runs::Store;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

/// Agents of other hosts that run one service for each minute since the epoch.
struct Agents;

impl HostQuery for Agents {
    fn query<'a>(&'a self, file: &'a Path, range: Range) -> Observing<'a> {
        assert_eq!(file, Path::new("hosts"));
        let id = HostId("alpha".into());
        let name = format!("job-{}", range.from_ms / 60_000);
        let service = Service {
            key: ServiceKey::of(&id, ServiceKind::Unit, &name),
            kind: ServiceKind::Unit,
            name,
            executable: None,
            arguments: None,
            container: None,
            pod: None,
            unit: None,
            cgroup: None,
        };
        let listener = flows::Listener {
            service: service.key.clone(),
            netns: 1,
            protocol: flows::Protocol::Tcp,
            at: flows::ListenAddress::Inet { ip: "10.0.0.1".parse().unwrap(), port: 80 },
        };
        let host = HostSlice {
            host: Host { id, name: "alpha".into(), boot: "b".into(), addresses: Vec::new() },
            services: vec![service],
            processes: Vec::new(),
            listeners: vec![listener],
            flows: Vec::new(),
            losses: Losses::default(),
            last_seen_ms: range.to_ms,
        };
        let slice = Slice { from_ms: range.from_ms, to_ms: range.to_ms, hosts: vec![host] };
        Box::pin(async move { Ok(Observed { slice, remarks: vec!["beta did not answer".into()] }) })
    }
}

/// Agents that never answer.
#[derive(Default)]
struct Silent {
    queried: Notify,
}

impl HostQuery for Silent {
    fn query<'a>(&'a self, _file: &'a Path, _range: Range) -> Observing<'a> {
        self.queried.notify_one();
        Box::pin(std::future::pending())
    }
}

/// An empty store, and the events of its use cases.
fn context(name: &str) -> (Context, Arc<Mutex<Vec<Event>>>) {
    let home = std::env::temp_dir().join(format!("faultloom-map-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&home);
    let events = Arc::new(Mutex::new(Vec::new()));
    let mut context = Context::new(home);
    context.events = Arc::new({
        let events = events.clone();
        move |event| events.lock().unwrap().push(event)
    });
    (context, events)
}

fn range(minute: i64) -> Value {
    json!({"from_ms": minute * 60_000, "to_ms": (minute + 1) * 60_000})
}

/// A spec as a client sends it.
fn map_spec(save: bool) -> MapSpec {
    let spec = json!({"version": 1, "range": range(5), "source": {"hosts": {"file": "hosts"}}, "save": save});
    serde_json::from_value(spec).unwrap()
}

fn changed_since_spec(fields: Value) -> ChangedSinceSpec {
    let mut spec = json!({"version": 1, "before": range(2), "after": range(5), "source": {"hosts": {"file": "hosts"}}});
    spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    serde_json::from_value(spec).unwrap()
}

fn beside_spec() -> BesideSpec {
    let spec = json!({"version": 1, "run": "last", "range": range(5), "source": {"hosts": {"file": "hosts"}}});
    serde_json::from_value(spec).unwrap()
}

fn observed(minute: i64) -> Event {
    let (from_ms, to_ms) = (minute * 60_000, (minute + 1) * 60_000);
    Event::Progress(Progress::RangeObserved { from_ms, to_ms, hosts: 1 })
}

#[tokio::test]
async fn a_map_is_drawn_and_saved_by_one_call() {
    let (context, events) = context("draw");
    let drawn = draw(&context, &map_spec(true), &Agents).await.unwrap();
    assert_eq!(drawn.graph.remarks, ["beta did not answer"]);
    let run = drawn.run.unwrap();
    assert_eq!(context.store().await.unwrap().find("last").await.unwrap().id, run.id);
    let kind = KindName::new("map");
    let expected = [
        observed(5),
        Event::Started { run: run.id, kind: kind.clone() },
        Event::Done { run: run.id, kind, verdict: Verdict::Pass },
    ];
    assert_eq!(*events.lock().unwrap(), expected);
    std::fs::remove_dir_all(&context.home).unwrap();
}

#[tokio::test]
async fn two_ranges_are_compared_by_one_call() {
    let (context, events) = context("changed-since");
    let changed = changed_since(&context, &changed_since_spec(json!({})), &Agents).await.unwrap();
    let labels = |graph: &flows::Graph| graph.nodes.iter().map(|node| node.label.clone()).collect::<Vec<_>>();
    assert_eq!((labels(&changed.before), labels(&changed.after)), (vec!["job-2".to_owned()], vec!["job-5".to_owned()]));
    assert_eq!((changed.before_slice.from_ms, changed.after_slice.from_ms), (120_000, 300_000));
    assert_eq!(changed.changes.len(), 2);
    assert_eq!(changed.remarks, ["beta did not answer"]);
    assert_eq!(*events.lock().unwrap(), [observed(5), observed(2)]);

    let of = |name: &str| changed_since_spec(json!({"of": name}));
    assert_eq!(changed_since(&context, &of("job-2"), &Agents).await.unwrap().changes.len(), 1);
    let failure = changed_since(&context, &of("job-3"), &Agents).await.err().unwrap();
    assert_eq!(failure.family, Family::Request, "it is in neither range");
    let snapshot = changed_since_spec(json!({"source": "snapshot"}));
    let failure = changed_since(&context, &snapshot, &Agents).await.err().unwrap();
    assert_eq!(failure.family, Family::Request, "{failure}");
}

#[tokio::test]
async fn a_canceled_map_ends_while_hosts_do_not_answer() {
    // no waiting future is left behind: each use case gets a context of its own
    for verb in ["draw", "changed-since", "beside"] {
        let (context, events) = context(&format!("canceled-{verb}"));
        let silent = Silent::default();
        let work = async {
            match verb {
                "draw" => draw(&context, &map_spec(true), &silent).await.err(),
                "changed-since" => changed_since(&context, &changed_since_spec(json!({})), &silent).await.err(),
                _ => beside(&context, &beside_spec(), &silent).await.err(),
            }
        };
        let cancel = async {
            silent.queried.notified().await;
            context.cancel.cancel();
        };
        let (failure, ()) = tokio::join!(work, cancel);
        let failure = failure.unwrap();
        assert_eq!((failure.family, failure.what.as_str()), (Family::Aborted, "the map was stopped"), "{verb}");
        assert_eq!(*events.lock().unwrap(), []);
        assert!(!context.home.exists() || Store::open(&context.home).await.unwrap().list(1).await.unwrap().is_empty());
        let _ = std::fs::remove_dir_all(&context.home);
    }
}
