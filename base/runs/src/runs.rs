//! The table of runs.

use crate::artifact::RunDir;
use crate::private;
use crate::schema;
use model::{Failure, HostFacts, KindName, Run, RunId, Verdict};
use sqlx::Row;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteRow};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub struct Store {
    pool: SqlitePool,
    home: PathBuf,
}

pub(crate) fn unusable(file: &Path, error: &sqlx::Error) -> Failure {
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

/// How long to wait for another writer.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
const RETRY_PAUSE: Duration = Duration::from_millis(10);

fn is_locked(error: &sqlx::Error) -> bool {
    error.to_string().contains("locked")
}

/// Retries a write while another writer holds the lock. In some states SQLite reports that instead of waiting.
async fn retry_while_locked(write: impl AsyncFn() -> Result<(), sqlx::Error>) -> Result<(), sqlx::Error> {
    let begin = Instant::now();
    loop {
        match write().await {
            Err(e) if is_locked(&e) && begin.elapsed() < LOCK_TIMEOUT => tokio::time::sleep(RETRY_PAUSE).await,
            done => return done,
        }
    }
}

async fn open_once(file: &Path) -> Result<SqlitePool, sqlx::Error> {
    // SQLite would create it with the rights that the umask permits; its other files have those of this one
    match private::options().create_new(true).write(true).open(file) {
        Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => return Err(sqlx::Error::Io(e)),
        _ => {}
    }
    let options = SqliteConnectOptions::new()
        .filename(file)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .busy_timeout(LOCK_TIMEOUT);
    SqlitePoolOptions::new().max_connections(1).connect_with(options).await
}

impl Store {
    /// Opens the store below `home`; creates it if it does not exist. Waits up to 5 s for another writer.
    pub async fn open(home: &Path) -> Result<Store, Failure> {
        make_home(home)?;
        let runs = home.join("runs");
        private::create_directory(&runs).map_err(|e| {
            Failure::environment(format!("cannot create {}: {e}", runs.display()))
                .next("choose another folder with --home DIR")
        })?;
        let file = home.join("store.db");
        let begin = Instant::now();
        // SQLite does not wait when a new file gets its write-ahead log, and when an existing log is recovered
        loop {
            match open_once(&file).await {
                Err(e) if is_locked(&e) && begin.elapsed() < LOCK_TIMEOUT => tokio::time::sleep(RETRY_PAUSE).await,
                Err(e) => return Err(unusable(&file, &e)),
                Ok(pool) => match schema::migrate(&pool, &file).await {
                    Ok(()) => return Ok(Store { pool, home: home.to_owned() }),
                    Err(failure) if failure.to_string().contains("is locked") && begin.elapsed() < LOCK_TIMEOUT => {
                        pool.close().await;
                        tokio::time::sleep(RETRY_PAUSE).await;
                    }
                    Err(failure) => return Err(failure),
                },
            }
        }
    }

    fn unusable(&self, error: &sqlx::Error) -> Failure {
        unusable(&self.home.join("store.db"), error)
    }

    /// Inserts a new run and creates its folder, locked by this process.
    pub async fn begin(
        &self,
        kind: KindName,
        title: &str,
        spec: serde_json::Value,
        seed: u64,
    ) -> Result<(Run, RunDir), Failure> {
        self.begin_as(RunId::create(), kind, title, spec, seed).await
    }

    /// The same for a run that requests carried the id of before.
    pub async fn begin_as(
        &self,
        id: RunId,
        kind: KindName,
        title: &str,
        spec: serde_json::Value,
        seed: u64,
    ) -> Result<(Run, RunDir), Failure> {
        let run = Run {
            id,
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
        retry_while_locked(async || {
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
                .map(|_| ())
        })
        .await
        .map_err(|e| self.unusable(&e))?;
        Ok((run, dir))
    }

    pub async fn finish(&self, run: &mut Run, verdict: Verdict, summary: serde_json::Value) -> Result<(), Failure> {
        run.end_ms = Some(now_ms());
        run.verdict = Some(verdict);
        run.summary = summary;
        retry_while_locked(async || {
            sqlx::query("UPDATE runs SET end_ms = $2, verdict = $3, summary = $4 WHERE id = $1")
                .bind(run.id.to_string())
                .bind(run.end_ms)
                .bind(verdict.as_str())
                .bind(run.summary.to_string())
                .execute(&self.pool)
                .await
                .map(|_| ())
        })
        .await
        .map_err(|e| self.unusable(&e))?;
        Ok(())
    }

    /// All runs, newest first.
    pub async fn list(&self, limit: i64) -> Result<Vec<Run>, Failure> {
        let rows = sqlx::query("SELECT * FROM runs ORDER BY id DESC LIMIT $1")
            .bind(limit)
            .fetch_all(&self.pool)
            .await
            .map_err(|e| self.unusable(&e))?;
        rows.iter().map(run_from).collect()
    }

    /// Finds a run by its id, any unambiguous end or beginning of it, or `last` for the newest run.
    pub async fn find(&self, text: &str) -> Result<Run, Failure> {
        let missing = || Failure::request(format!("there is no run '{text}'")).next("`faultloom runs` lists them");
        let rows = if text == "last" {
            sqlx::query("SELECT * FROM runs ORDER BY id DESC LIMIT 1").fetch_all(&self.pool).await
        } else {
            let digits = digits_of_id(text).ok_or_else(|| {
                missing().why(format!("a run is named by `last`, or by at least {DIGITS_MIN} hex digits of its id"))
            })?;
            sqlx::query("SELECT * FROM runs WHERE replace(id, '-', '') LIKE $1 || '%' OR replace(id, '-', '') LIKE '%' || $1 ORDER BY id DESC LIMIT 3")
                .bind(digits)
                .fetch_all(&self.pool)
                .await
        }
        .map_err(|e| self.unusable(&e))?;
        match rows.as_slice() {
            [one] => run_from(one),
            [] => Err(missing()),
            _ => Err(Failure::request(format!("'{text}' matches more than one run"))
                .next("give more digits; `faultloom runs` lists them")),
        }
    }

    pub fn dir(&self, id: RunId) -> RunDir {
        RunDir::existing(&self.runs_folder().join(id.to_string()))
    }

    pub(crate) fn runs_folder(&self) -> PathBuf {
        self.home.join("runs")
    }

    pub(crate) async fn exists(&self, id: RunId) -> Result<bool, Failure> {
        let found = sqlx::query("SELECT 1 FROM runs WHERE id = $1").bind(id.to_string()).fetch_optional(&self.pool);
        found.await.map(|row| row.is_some()).map_err(|e| self.unusable(&e))
    }

    /// Removes the row and the folder, if there is one. Refuses a run that a process is working on.
    pub async fn delete(&self, id: RunId) -> Result<(), Failure> {
        let path = self.home.join("runs").join(id.to_string());
        let held = if path.exists() { Some(self.dir(id).lock()?) } else { None };
        sqlx::query("DELETE FROM runs WHERE id = $1")
            .bind(id.to_string())
            .execute(&self.pool)
            .await
            .map_err(|e| self.unusable(&e))?;
        match held.map(|_held| std::fs::remove_dir_all(&path)) {
            Some(Err(e)) => Err(Failure::environment(format!("{} cannot be removed: {e}", path.display()))),
            _ => Ok(()),
        }
    }
}

/// Fewer digits could match a run by accident.
const DIGITS_MIN: usize = 4;

/// The hex digits of (part of) an id, without its dashes.
fn digits_of_id(text: &str) -> Option<String> {
    let digits = text.replace('-', "");
    (digits.len() >= DIGITS_MIN && digits.bytes().all(|b| b.is_ascii_hexdigit())).then_some(digits)
}

/// Creates the folder of the store, readable by its owner only, because runs may contain secrets. The rights of an
/// existing store are corrected.
pub fn make_home(home: &Path) -> Result<(), Failure> {
    use std::os::unix::fs::DirBuilderExt;
    let parent = match home.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => std::fs::create_dir_all(parent),
        _ => Ok(()),
    };
    let made = parent.and_then(|()| match std::fs::DirBuilder::new().mode(0o700).create(home) {
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists && home.is_dir() => Ok(()),
        made => made,
    });
    made.map_err(|e| {
        Failure::environment(format!("cannot create {}: {e}", home.display()))
            .next("choose another folder with --home DIR")
    })?;
    private::secure(home)
}

fn run_from(row: &SqliteRow) -> Result<Run, Failure> {
    let damaged = |what: &str| {
        Failure::environment(format!("a row of the store is damaged: {what}"))
            .next("the run's folder still has its artifacts")
    };
    let text = |name: &str| row.try_get::<String, _>(name).map_err(|_| damaged(name));
    let json = |name: &str| serde_json::from_str(&text(name)?).map_err(|_| damaged(name));
    Ok(Run {
        id: text("id")?.parse().map_err(|_| damaged("id"))?,
        kind: text("kind")?.into(),
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

    async fn new_store(name: &str) -> (PathBuf, Store) {
        let home = std::env::temp_dir().join(format!("faultloom-store-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&home);
        let store = Store::open(&home).await.unwrap();
        (home, store)
    }

    #[tokio::test]
    async fn a_run_is_found_by_any_unambiguous_part_of_its_id() {
        let (home, store) = new_store("find").await;
        let (mut run, dir) =
            store.begin(KindName::new("recording"), "GET /", serde_json::json!({"a": 1}), 7).await.unwrap();
        store.finish(&mut run, Verdict::Pass, serde_json::json!({"events": 3})).await.unwrap();
        drop(dir);
        assert_eq!(store.find(&run.id.to_string()).await.unwrap(), run);
        assert_eq!(store.find(&run.id.short()).await.unwrap(), run);
        assert_eq!(store.find("last").await.unwrap(), run);
        assert_eq!(store.find(&run.id.to_string()[..10]).await.unwrap(), run);
        assert!(store.find("0000").await.unwrap_err().to_string().contains("no run '0000'"));
        for text in ["nope", "", "%", "-", "----", &run.id.to_string()[..3], "____"] {
            let failure = store.find(text).await.unwrap_err();
            assert_eq!(failure.exit(), model::Exit::Usage);
            assert!(failure.to_string().contains("at least 4 hex digits"), "{text}: {failure}");
        }
        store.delete(run.id).await.unwrap();
        assert!(store.list(10).await.unwrap().is_empty());
        std::fs::remove_dir_all(home).unwrap();
    }

    #[tokio::test]
    async fn a_store_of_a_newer_version_is_refused_and_not_changed() {
        let (home, store) = new_store("newer").await;
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
    async fn a_run_whose_folder_is_gone_can_be_deleted() {
        let (home, store) = new_store("no-folder").await;
        let (run, dir) = store.begin(KindName::new("recording"), "GET /", serde_json::Value::Null, 0).await.unwrap();
        std::fs::remove_dir_all(dir.path()).unwrap();
        store.delete(run.id).await.unwrap();
        assert!(store.list(10).await.unwrap().is_empty());
        assert!(!dir.path().exists());
        std::fs::remove_dir_all(home).unwrap();
    }

    #[tokio::test]
    async fn only_the_owner_reads_a_store() {
        use std::os::unix::fs::PermissionsExt;
        let (home, _store) = new_store("owner").await;
        assert_eq!(std::fs::metadata(&home).unwrap().permissions().mode() & 0o777, 0o700);
        std::fs::remove_dir_all(home).unwrap();
    }

    #[tokio::test]
    async fn concurrent_processes_can_create_one_store() {
        for round in 0..10 {
            let home = std::env::temp_dir().join(format!("faultloom-store-{}-concurrent-{round}", std::process::id()));
            let _ = std::fs::remove_dir_all(&home);
            std::thread::scope(|scope| {
                for _ in 0..16 {
                    scope.spawn(|| {
                        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                        runtime.block_on(async {
                            let store = Store::open(&home).await.unwrap();
                            store.begin(KindName::new("recording"), "a", serde_json::Value::Null, 0).await.unwrap();
                        });
                    });
                }
            });
            assert_eq!(Store::open(&home).await.unwrap().list(100).await.unwrap().len(), 16);
            std::fs::remove_dir_all(home).unwrap();
        }
    }

    #[tokio::test]
    async fn two_processes_share_a_store_but_not_a_run() {
        let (home, one) = new_store("two").await;
        let two = Store::open(&home).await.unwrap();
        let (run, dir) = one.begin(KindName::new("sweep"), "a", serde_json::Value::Null, 0).await.unwrap();
        let (_other, _other_dir) = two.begin(KindName::new("sweep"), "b", serde_json::Value::Null, 0).await.unwrap();
        assert_eq!(one.list(10).await.unwrap().len(), 2);
        assert!(two.delete(run.id).await.unwrap_err().to_string().contains("another process"));
        drop(dir);
        two.delete(run.id).await.unwrap();
        std::fs::remove_dir_all(home).unwrap();
    }
}
