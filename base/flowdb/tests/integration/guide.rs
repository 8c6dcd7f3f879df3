//! Runs the statements of docs/guides/flowdb.md.

#[cfg(feature = "postgres")]
use crate::support;
use crate::support::database::each_database;
use crate::support::{Agent, MINUTE, T0};
use flowdb::FlowDb;
use flows::{ListenAddress, ServiceKind, Side};
use std::path::Path;
use std::process::Command;

/// The block of the page with this name: `sql NAME`, or `sql NAME (PostgreSQL)` if SQLite does not support it.
fn statements(name: &str) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides/flowdb.md");
    let page = std::fs::read_to_string(page).unwrap();
    let block = page.split("```sql ").find(|block| block.lines().next() == Some(name));
    let block = block.unwrap_or_else(|| panic!("no block '{name}'"));
    block.split_once('\n').unwrap().1.split("```").next().unwrap().to_owned()
}

/// Two web servers and a database, each with an agent, one client without; the database also calls itself.
async fn record_shop(flowdb: &FlowDb) {
    let (mut web_1, mut web_3, mut db) = (Agent::new(1), Agent::new(3), Agent::new(2));
    db.host.name = "db-2".to_owned();
    db.web = crate::support::service(&db.host.id, ServiceKind::Unit, "postgresql");
    let at = T0 + 30 * MINUTE;
    let mut window = db.window(at);
    window.listeners = Some(vec![db.listener("0.0.0.0", 5432)]);
    let addresses =
        [("10.0.0.1", "10.0.0.2"), ("10.0.0.3", "10.0.0.2"), ("192.0.2.9", "10.0.0.2"), ("127.0.0.1", "127.0.0.1")];
    window.flows = addresses.map(|(from, to)| db.flow(Side::Passive, from, to, 5432)).to_vec();
    window.flows.push(db.flow(Side::Active, "127.0.0.1", "127.0.0.1", 5432));
    let mut through_nat = web_3.window(at);
    let mut flow = web_3.flow(Side::Active, "10.0.0.3", "172.16.0.1", 6000);
    flow.translated = Some(ListenAddress::Inet { ip: "10.0.0.2".parse().unwrap(), port: 5432 });
    flow.process = None;
    through_nat.flows = vec![flow];
    through_nat.losses.table_full = 9;
    through_nat.source = flows::Source::Polling;
    // not dependents: a loopback flow of another host, the same port of another address, and another time
    let mut elsewhere = web_1.window(at);
    elsewhere.flows = vec![
        web_1.flow(Side::Active, "127.0.0.1", "127.0.0.1", 5432),
        web_1.flow(Side::Active, "10.0.0.1", "198.51.100.7", 5432),
    ];
    let mut early = web_3.busy(at - 10 * MINUTE, 2);
    early.source = flows::Source::Polling;
    let windows = [window, through_nat, web_1.busy(at, 2), elsewhere, early];
    assert_eq!(flowdb.record(&windows).await.unwrap(), 5);
}

const DEPENDENTS: &str = "db-2|postgresql|7|127.0.0.1|3|1|1\nweb-1|nginx|7|10.0.0.1|3|1|1\nweb-3|nginx||10.0.0.3|3|1|1\n|||192.0.2.9|3|1|1\n";
const DEPENDS: &str = "nginx|tcp|10.0.0.2|5432|3|1\nnginx|tcp|127.0.0.1|5432|3|1\nnginx|tcp|198.51.100.7|5432|3|1\n";
const LISTENS: &str = "db-2|postgresql|tcp|0.0.0.0|5432|\nweb-1|nginx|tcp|0.0.0.0|80|\nweb-3|nginx|tcp|0.0.0.0|80|\n";
const MISSING: &str = "web-3|1767227400000|9|0|0\nweb-3|polling\n";

/// As `sqlite3` prints it.
fn sqlite(file: &str, sql: &str) -> String {
    const SCRIPT: &str = "import sqlite3, sys
c = sqlite3.connect('file:' + sys.argv[1] + '?mode=ro', uri=True)
for statement in sys.argv[2].split(';'):
    for row in c.execute(statement):
        print('|'.join('' if cell is None else str(cell) for cell in row))";
    let output = Command::new("python3").args(["-c", SCRIPT, file, sql]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn the_queries_return_dependents_and_listeners() {
    for database in each_database("guide").await {
        let flowdb = database.open().await;
        record_shop(&flowdb).await;
        let query = |name: &str| -> Vec<String> {
            let sql = statements(name);
            let answer = match database.url.starts_with("postgres") {
                #[cfg(feature = "postgres")]
                true => crate::support::postgres::Cluster::shared().unwrap().sql("guide", &sql),
                _ => sqlite(&database.url, &sql),
            };
            answer.lines().map(str::to_owned).collect()
        };
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        let sorted = |mut lines: Vec<String>| {
            lines.sort(); // the databases sort null differently
            lines
        };
        assert_eq!(sorted(query("paper")), sorted(lines(DEPENDENTS)));
        assert_eq!(query("depends"), lines(DEPENDS));
        assert_eq!(query("listens"), lines(LISTENS));
        assert_eq!(query("missing"), lines(MISSING));
        if database.url.starts_with("postgres") {
            assert_eq!(query("networks (PostgreSQL)"), ["web-1|nginx|10.0.0.2|5432", "web-3|nginx|10.0.0.2|5432"]);
        }
    }
}

/// Agents record and cannot delete, readers read and cannot record.
#[cfg(feature = "postgres")]
#[tokio::test]
async fn roles_have_only_the_permissions_that_they_need() {
    let Some(cluster) = crate::support::postgres::Cluster::shared() else { return };
    let owner = cluster.database("roles");
    cluster.sql("roles", &statements("roles (PostgreSQL)"));
    let before = FlowDb::open(&cluster.url("faultloom_agent", "roles")).await.err().unwrap();
    assert!(before.to_string().contains("permission denied"), "{before}");
    FlowDb::open(&owner).await.unwrap().close().await;
    let agent = FlowDb::open(&cluster.url("faultloom_agent", "roles")).await.unwrap();
    record_shop(&agent).await;
    let refused = agent.forget(T0).await.unwrap_err();
    assert!(
        refused.to_string().contains("permission denied") && refused.next.as_deref().unwrap().contains("access"),
        "{refused:?}"
    );
    let now_ms = T0 + 1000 * support::DAY;
    let refused = agent.retain(&flowdb::Retention::default(), now_ms).await.unwrap_err();
    assert!(refused.to_string().contains("permission denied"), "{refused}");
    let reader = FlowDb::read(&cluster.url("faultloom_reader", "roles")).await.unwrap();
    assert_eq!(support::all(&reader).await.hosts.len(), 3);
    assert!(reader.record(&[Agent::new(9).busy(T0, 1)]).await.unwrap_err().to_string().contains("permission denied"));
    FlowDb::open(&owner).await.unwrap().forget(T0 + support::DAY * 2).await.unwrap();
    assert!(support::all(&reader).await.hosts.is_empty());
}

/// Windows a day, ten days and a hundred days old: minutes, hours, nothing.
#[cfg(feature = "postgres")]
#[tokio::test]
async fn retention_by_the_owner_equals_that_of_the_agent() {
    let Some(cluster) = crate::support::postgres::Cluster::shared() else { return };
    let flowdb = FlowDb::open(&cluster.database("retention")).await.unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as i64;
    let days_ago = |days: i64| now.div_euclid(support::HOUR) * support::HOUR - days * support::DAY;
    let (mut old, mut new) = (Agent::new(1), Agent::new(2));
    let windows = [
        old.busy(days_ago(100), 2),
        new.busy(days_ago(10), 1),
        new.busy(days_ago(10) + MINUTE, 1),
        new.busy(days_ago(1), 1),
    ];
    flowdb.record(&windows).await.unwrap();
    cluster.sql("retention", &statements("retention (PostgreSQL)"));
    let opened = async |at: i64| {
        let slice = flowdb.slice(at, at).await.unwrap();
        slice.hosts.first().and_then(|host| host.flows.first()).map(|flow| flow.counts.opened)
    };
    assert_eq!(opened(days_ago(100)).await, None);
    assert_eq!(opened(days_ago(10) + 30 * MINUTE).await, Some(6), "the sum of its hour");
    assert_eq!([opened(days_ago(1)).await, opened(days_ago(1) + MINUTE).await], [Some(3), None]);
    let hosts = flowdb.hosts().await.unwrap();
    assert_eq!(hosts.iter().map(|host| host.name.as_str()).collect::<Vec<_>>(), ["web-2"]);
}
