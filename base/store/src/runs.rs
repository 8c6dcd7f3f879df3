//! The table of runs.

use crate::artefact::RunDir;
use crate::schema;
use model::{Failure, HostFacts, Run, RunId, RunKind, Verdict};
use sqlx::Row;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteRow};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub struct Store {
    pool: SqlitePool,
    home: PathBuf,
}

pub(crate) fn broken(file: &Path, error: &sqlx::Error) -> Failure {
    let text = error.to_string();
    let failure = Failure::environment(format!("the store {} cannot be used", file.display())).why(text.clone());
    if text.contains("locked") {
        failure.next("another faultloom is writing to it; try again, or use another store with --home DIR")
    } else if text.contains("full") {
        failure.next("free some space; what was written before is safe")
    } else {
        failure.next("check that the folder is writable, or use another store with --home DIR")
    }
}

impl Store {
    /// Opens the store below `home`, makes it if there is none. Waits up to 5 s for another writer.
    pub async fn open(home: &Path) -> Result<Store, Failure> {
        std::fs::create_dir_all(home.join("runs")).map_err(|e| {
            Failure::environment(format!("{} cannot be made: {e}", home.display()))
                .next("choose another place with --home DIR")
        })?;
        let file = home.join("store.db");
        let options = SqliteConnectOptions::new()
            .filename(&file)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .busy_timeout(Duration::from_secs(5));
        let pool =
            SqlitePoolOptions::new().max_connections(1).connect_with(options).await.map_err(|e| broken(&file, &e))?;
        schema::migrate(&pool, &file).await?;
        Ok(Store { pool, home: home.to_owned() })
    }

    fn broken(&self, error: &sqlx::Error) -> Failure {
        broken(&self.home.join("store.db"), error)
    }

    /// Records a run's begin and makes its folder, locked by this process.
    pub async fn begin(
        &self,
        kind: RunKind,
        title: &str,
        spec: serde_json::Value,
        seed: u64,
    ) -> Result<(Run, RunDir), Failure> {
        let run = Run {
            id: RunId::create(),
            kind,
            title: title.to_owned(),
            spec,
            seed,
            host: host_facts(),
            begin_ms: now_ms(),
            end_ms: None,
            verdict: None,
            summary: serde_json::Value::Null,
        };
        let dir = RunDir::create(&self.home.join("runs").join(run.id.to_string()))?;
        sqlx::query("INSERT INTO runs (id, kind, title, spec, seed, host, begin_ms, summary) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)")
            .bind(run.id.to_string())
            .bind(run.kind.as_str())
            .bind(&run.title)
            .bind(run.spec.to_string())
            .bind(run.seed as i64)
            .bind(serde_json::to_string(&run.host).unwrap_or_default())
            .bind(run.begin_ms)
            .bind("null")
            .execute(&self.pool)
            .await
            .map_err(|e| self.broken(&e))?;
        Ok((run, dir))
    }

    pub async fn finish(&self, run: &mut Run, verdict: Verdict, summary: serde_json::Value) -> Result<(), Failure> {
        run.end_ms = Some(now_ms());
        run.verdict = Some(verdict);
        run.summary = summary;
        sqlx::query("UPDATE runs SET end_ms = $2, verdict = $3, summary = $4 WHERE id = $1")
            .bind(run.id.to_string())
            .bind(run.end_ms)
            .bind(verdict.as_str())
            .bind(run.summary.to_string())
            .execute(&self.pool)
            .await
            .map_err(|e| self.broken(&e))?;
        Ok(())
    }

    /// All runs, newest first.
    pub async fn list(&self, limit: i64) -> Result<Vec<Run>, Failure> {
        let rows = sqlx::query("SELECT * FROM runs ORDER BY id DESC LIMIT $1")
            .bind(limit)
            .fetch_all(&self.pool)
            .await
            .map_err(|e| self.broken(&e))?;
        rows.iter().map(run_from).collect()
    }

    /// By whole id, by any unambiguous end or beginning of it, or `last` for the newest run.
    pub async fn find(&self, text: &str) -> Result<Run, Failure> {
        let rows = if text == "last" {
            sqlx::query("SELECT * FROM runs ORDER BY id DESC LIMIT 1").fetch_all(&self.pool).await
        } else {
            sqlx::query("SELECT * FROM runs WHERE id LIKE $1 || '%' OR replace(id, '-', '') LIKE '%' || $1 ORDER BY id DESC LIMIT 3")
                .bind(text.replace(['%', '_'], ""))
                .fetch_all(&self.pool)
                .await
        }
        .map_err(|e| self.broken(&e))?;
        match rows.as_slice() {
            [one] => run_from(one),
            [] => Err(Failure::request(format!("there is no run '{text}'")).next("`faultloom runs` lists them")),
            _ => Err(Failure::request(format!("'{text}' fits more than one run"))
                .next("give more digits; `faultloom runs` lists them")),
        }
    }

    pub fn dir(&self, id: RunId) -> RunDir {
        RunDir::existing(&self.home.join("runs").join(id.to_string()))
    }

    /// Removes the row and the folder. Refuses a run that a process is working on.
    pub async fn delete(&self, id: RunId) -> Result<(), Failure> {
        self.dir(id).lock()?;
        sqlx::query("DELETE FROM runs WHERE id = $1")
            .bind(id.to_string())
            .execute(&self.pool)
            .await
            .map_err(|e| self.broken(&e))?;
        let path = self.home.join("runs").join(id.to_string());
        std::fs::remove_dir_all(&path)
            .map_err(|e| Failure::environment(format!("{} cannot be removed: {e}", path.display())))
    }
}

fn run_from(row: &SqliteRow) -> Result<Run, Failure> {
    let damaged = |what: &str| {
        Failure::environment(format!("a row of the store is damaged: {what}"))
            .next("the run's folder still has its artefacts")
    };
    let text = |name: &str| row.try_get::<String, _>(name).map_err(|_| damaged(name));
    let json = |name: &str| serde_json::from_str(&text(name)?).map_err(|_| damaged(name));
    Ok(Run {
        id: text("id")?.parse().map_err(|_| damaged("id"))?,
        kind: RunKind::parse(&text("kind")?).ok_or_else(|| damaged("kind"))?,
        title: text("title")?,
        spec: json("spec")?,
        seed: row.try_get::<i64, _>("seed").map_err(|_| damaged("seed"))? as u64,
        host: serde_json::from_str(&text("host")?).map_err(|_| damaged("host"))?,
        begin_ms: row.try_get("begin_ms").map_err(|_| damaged("begin_ms"))?,
        end_ms: row.try_get("end_ms").map_err(|_| damaged("end_ms"))?,
        verdict: row
            .try_get::<Option<String>, _>("verdict")
            .map_err(|_| damaged("verdict"))?
            .as_deref()
            .and_then(Verdict::parse),
        summary: json("summary")?,
    })
}

fn now_ms() -> i64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_millis() as i64)
}

fn host_facts() -> HostFacts {
    HostFacts {
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        kernel: std::fs::read_to_string("/proc/sys/kernel/osrelease").map(|s| s.trim().to_owned()).unwrap_or_default(),
        cpus: std::thread::available_parallelism().map_or(0, usize::from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn fresh(name: &str) -> (PathBuf, Store) {
        let home = std::env::temp_dir().join(format!("faultloom-store-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&home);
        let store = Store::open(&home).await.unwrap();
        (home, store)
    }

    #[tokio::test]
    async fn a_run_is_found_by_any_unambiguous_part_of_its_id() {
        let (home, store) = fresh("find").await;
        let (mut run, dir) = store.begin(RunKind::Recording, "GET /", serde_json::json!({"a": 1}), 7).await.unwrap();
        store.finish(&mut run, Verdict::Pass, serde_json::json!({"events": 3})).await.unwrap();
        drop(dir);
        assert_eq!(store.find(&run.id.to_string()).await.unwrap(), run);
        assert_eq!(store.find(&run.id.short()).await.unwrap(), run);
        assert_eq!(store.find("last").await.unwrap(), run);
        assert!(store.find("nope").await.unwrap_err().to_string().contains("no run 'nope'"));
        store.delete(run.id).await.unwrap();
        assert!(store.list(10).await.unwrap().is_empty());
        std::fs::remove_dir_all(home).unwrap();
    }

    #[tokio::test]
    async fn a_store_of_a_newer_version_is_refused_and_left_alone() {
        let (home, store) = fresh("newer").await;
        sqlx::query("PRAGMA user_version = 99").execute(&store.pool).await.unwrap();
        store.pool.close().await;
        let before = std::fs::read(home.join("store.db")).unwrap();
        let failure = Store::open(&home).await.err().unwrap();
        assert!(failure.to_string().contains("version 99"), "{failure}");
        assert_eq!(failure.exit(), model::Exit::Environment);
        assert_eq!(std::fs::read(home.join("store.db")).unwrap(), before);
        std::fs::remove_dir_all(home).unwrap();
    }

    #[tokio::test]
    async fn two_tools_share_a_store_but_not_a_run() {
        let (home, one) = fresh("two").await;
        let two = Store::open(&home).await.unwrap();
        let (run, dir) = one.begin(RunKind::Sweep, "a", serde_json::Value::Null, 0).await.unwrap();
        let (_other, _other_dir) = two.begin(RunKind::Sweep, "b", serde_json::Value::Null, 0).await.unwrap();
        assert_eq!(one.list(10).await.unwrap().len(), 2);
        assert!(two.delete(run.id).await.unwrap_err().to_string().contains("another process"));
        drop(dir);
        two.delete(run.id).await.unwrap();
        std::fs::remove_dir_all(home).unwrap();
    }
}
