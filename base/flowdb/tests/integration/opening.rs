//! Unusable databases: each failure has a next step, nothing is changed, no password is printed.

use crate::support::database::each_database;
use crate::support::{Agent, Folder, T0, all};
use flowdb::FlowDb;
#[cfg(feature = "postgres")]
use flows::Losses;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

fn python(script: &str, file: &str) {
    assert!(Command::new("python3").args(["-c", script, file]).status().unwrap().success());
}

#[tokio::test]
async fn a_newer_sqlite_schema_is_rejected_unchanged() {
    let folder = Folder::new("newer");
    let file = folder.file("flowdb.db");
    FlowDb::open(&file).await.unwrap().close().await;
    python("import sqlite3,sys; c=sqlite3.connect(sys.argv[1]); c.execute('pragma user_version=9'); c.close()", &file);
    let before = std::fs::read(&file).unwrap();
    for rejected in [FlowDb::open(&file).await, FlowDb::read(&file).await] {
        let rejected = rejected.err().unwrap().to_string();
        assert!(
            rejected.contains("has version 9; this faultloom supports up to 2") && rejected.contains("next: "),
            "{rejected}"
        );
    }
    assert_eq!(std::fs::read(&file).unwrap(), before);
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn a_newer_postgresql_schema_is_rejected() {
    let Some(cluster) = crate::support::postgres::Cluster::shared() else { return };
    let url = cluster.database("newer");
    FlowDb::open(&url).await.unwrap().close().await;
    cluster.sql("newer", "UPDATE schema_version SET version = 9");
    for rejected in [FlowDb::open(&url).await, FlowDb::read(&url).await] {
        assert!(rejected.err().unwrap().to_string().contains("has version 9; this faultloom supports up to 2"));
    }
}

/// A fleet's database of version 1 is read, and its owner migrates it while agents of version 1 record.
#[cfg(feature = "postgres")]
#[tokio::test]
async fn only_the_owner_can_migrate_a_postgresql_database() {
    let Some(cluster) = crate::support::postgres::Cluster::shared() else { return };
    let owner = cluster.database("older");
    cluster.sql("older", include_str!("../../schema/postgres.1.sql"));
    cluster.sql(
        "older",
        "CREATE TABLE schema_version (version BIGINT NOT NULL); INSERT INTO schema_version VALUES (1);
        CREATE ROLE older_agent LOGIN; GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA public TO older_agent;
        INSERT INTO hosts VALUES ('h', 'web-1', 1, 2); INSERT INTO boots VALUES ('h', 'b', 1, 2);
        INSERT INTO losses VALUES (0, 60000, 'h', 'b', 1, 2, 3, 4)",
    );
    let agent = cluster.url("older_agent", "older");
    let refused = FlowDb::open(&agent).await.err().unwrap().to_string();
    assert!(refused.contains("has version 1; this faultloom writes version 2"), "{refused}");
    assert!(refused.contains("with a URL of the tables' owner"), "{refused}");
    let reader = FlowDb::read(&agent).await.unwrap();
    let losses = async || reader.slice(0, 60_000).await.unwrap().hosts[0].losses;
    let of_version_1 = Losses { table_full: 1, recursion: 2, windows: 3, unreadable: 4, ..Losses::default() };
    assert_eq!(losses().await, of_version_1);
    FlowDb::open(&owner).await.unwrap().close().await;
    assert_eq!(losses().await, of_version_1, "also with a connection from before");
    cluster.sql("older", "UPDATE losses SET closed_unseen = 5, between_polls = 6");
    assert_eq!(losses().await, Losses { closed_unseen: 5, between_polls: 6, ..of_version_1 });
    let statement = "INSERT INTO losses (from_ms, span_ms, host, boot, table_full, recursion, windows, unreadable) \
        VALUES (60000, 60000, 'h', 'b', 1, 1, 1, 1)";
    cluster.sql("older", statement);
    let agent = FlowDb::open(&agent).await.unwrap();
    assert_eq!(agent.record(&[Agent::new(1).busy(T0, 1)]).await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_database_can_be_opened_concurrently() {
    for database in each_database("fresh").await {
        let tasks: Vec<_> = (0..12u8)
            .map(|number| {
                let url = database.url.clone();
                tokio::spawn(async move {
                    let flowdb = FlowDb::open(&url).await.unwrap();
                    flowdb.record(&[Agent::new(number).busy(T0, 1)]).await.unwrap();
                    flowdb.close().await;
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(all(&database.open().await).await.hosts.len(), 12);
    }
}

/// `agent serve` has no write permission; it reads while the agent writes and after it has stopped.
#[tokio::test]
async fn a_reader_needs_no_write_permission() {
    let folder = Folder::new("reader");
    let file = folder.file("flowdb.db");
    let flowdb = FlowDb::open(&file).await.unwrap();
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o137, 0, "writable by its owner, readable by its group: {mode:o}");
    let mut agent = Agent::new(1);
    flowdb.record(&[agent.busy(T0, 2)]).await.unwrap();
    let reader = FlowDb::read(&file).await.unwrap();
    assert_eq!(all(&reader).await.hosts.len(), 1);
    flowdb.record(&[Agent::new(2).busy(T0, 1)]).await.unwrap();
    assert_eq!(all(&reader).await.hosts.len(), 2, "new windows are visible");
    assert!(reader.record(&[agent.busy(T0, 2)]).await.unwrap_err().to_string().contains("readonly"));
    reader.close().await;
    flowdb.close().await;
    let before = std::fs::read_dir(&folder.0).unwrap().count();
    let reader = FlowDb::read(&file).await.unwrap();
    assert_eq!(all(&reader).await.hosts.len(), 2);
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), before, "it creates no file");
}

#[tokio::test]
async fn no_password_is_printed() {
    for url in [
        "postgres://user:hunter2@127.0.0.1:1/db",
        "postgres://user:hunter2@127.0.0.1:port/db",
        "postgres://user@127.0.0.1:1/db?password=hunter2&sslmode=nonsense",
        "postgresql://user:hunter2@[::1/db",
    ] {
        let failure = FlowDb::open(url).await.err().unwrap();
        assert!(!format!("{failure} {failure:?}").contains("hunter2"), "{failure}");
        assert!(failure.next.is_some(), "{failure}");
    }
}

#[tokio::test]
async fn an_impossible_location_is_reported() {
    let folder = Folder::new("nowhere");
    std::fs::write(
        folder.0.join("file"),
        "not a database, but longer than the header of one ...............................",
    )
    .unwrap();
    let failure = FlowDb::open(&folder.file("file")).await.err().unwrap();
    assert!(failure.to_string().contains("not a database") && failure.next.is_some(), "{failure}");
    let failure = FlowDb::open(&folder.file("file/below")).await.err().unwrap();
    assert!(failure.to_string().contains("cannot create") && failure.next.is_some(), "{failure}");
    let failure = FlowDb::read(&folder.file("missing")).await.err().unwrap();
    assert!(failure.to_string().contains("missing") && failure.next.is_some(), "{failure}");
    assert!(!folder.0.join("missing").exists());
}
