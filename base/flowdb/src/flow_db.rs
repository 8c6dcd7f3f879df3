//! The public interface of the database.

use crate::connection::Pool;
use crate::{Retention, record, retention, schema, slice};
use flows::{HostId, Slice, Window};
use model::Failure;
use sqlx::Error;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use std::borrow::Borrow;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Time limit of one operation; after that the database counts as unavailable.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
const RETRY_PAUSE: Duration = Duration::from_millis(10);

pub struct FlowDb {
    pool: Pool,
    timeout: Duration,
    /// Path or URL, without password.
    location: String,
}

/// A host with at least one window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostSummary {
    pub id: HostId,
    pub name: String,
    /// Milliseconds since the epoch.
    pub first_ms: i64,
    pub last_ms: i64,
}

impl FlowDb {
    /// Opens a database and creates its tables if necessary: an SQLite file, or
    /// `postgres://USER[:PASSWORD]@HOST[:PORT]/NAME`.
    ///
    /// # Errors
    /// It is not reachable or writable, was written by a newer version, or this program was built without PostgreSQL.
    pub async fn open(path_or_url: &str) -> Result<FlowDb, Failure> {
        FlowDb::open_with_timeout(path_or_url, DEFAULT_TIMEOUT).await
    }

    /// Like [`FlowDb::open`], with another time limit per operation than 10 s.
    pub async fn open_with_timeout(path_or_url: &str, timeout: Duration) -> Result<FlowDb, Failure> {
        if is_url(path_or_url) {
            return open_postgres(path_or_url, timeout, true).await;
        }
        let file = Path::new(path_or_url);
        create_file(file)?;
        let options = SqliteConnectOptions::new()
            .filename(file)
            .journal_mode(SqliteJournalMode::Wal)
            // a power failure may lose the last windows, which is acceptable
            .synchronous(SqliteSynchronous::Normal)
            .busy_timeout(timeout)
            // rows are sorted, so pages are not reused soon
            .pragma("cache_size", "-512");
        let flowdb = FlowDb::connect(options, path_or_url, timeout).await?;
        schema::migrate(&flowdb.pool).await.map_err(|incompatible| incompatible.failure(path_or_url))?;
        Ok(flowdb)
    }

    /// Opens a database for reading. Needs no write permission and works while an agent writes.
    pub async fn read(path_or_url: &str) -> Result<FlowDb, Failure> {
        if is_url(path_or_url) {
            return open_postgres(path_or_url, DEFAULT_TIMEOUT, false).await;
        }
        let file = Path::new(path_or_url);
        // without a log there is no writer; and SQLite cannot create the log in a directory that is not writable
        let has_no_writer = !file.with_file_name(format!("{}-wal", file_name(file))).exists();
        let options = SqliteConnectOptions::new()
            .filename(file)
            .read_only(true)
            .immutable(has_no_writer)
            .busy_timeout(DEFAULT_TIMEOUT);
        let flowdb = FlowDb::connect(options, path_or_url, DEFAULT_TIMEOUT).await?;
        schema::check(&flowdb.pool).await.map_err(|incompatible| incompatible.failure(path_or_url))?;
        Ok(flowdb)
    }

    async fn connect(options: SqliteConnectOptions, location: &str, timeout: Duration) -> Result<FlowDb, Failure> {
        let begin = Instant::now();
        // SQLite does not wait while a new file switches to the write-ahead log, so retry
        loop {
            match SqlitePoolOptions::new().max_connections(4).connect_with(options.clone()).await {
                Ok(pool) => return Ok(FlowDb { pool: Pool::Sqlite(pool), timeout, location: location.to_owned() }),
                Err(e) if e.to_string().contains("locked") && begin.elapsed() < timeout => {
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
                Err(e) => return Err(unusable(location, &e)),
            }
        }
    }

    /// Records windows in one transaction and returns the number of new ones. A window that was already recorded is
    /// skipped. Windows of one agent must be in order.
    ///
    /// # Errors
    /// Of the family [`model::Family::Request`] if the database rejects the content of a window; a retry cannot
    /// succeed. Otherwise the database is unavailable and a retry may succeed.
    pub async fn record<W: Borrow<Window> + Sync>(&self, windows: &[W]) -> Result<usize, Failure> {
        let windows: Vec<&Window> = windows.iter().map(Borrow::borrow).collect();
        let begin = Instant::now();
        loop {
            match tokio::time::timeout(self.timeout, self.record_once(&windows)).await {
                Ok(Ok(recorded)) => return Ok(recorded),
                Ok(Err(e)) if is_conflict(&e) && begin.elapsed() < self.timeout => {
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
                Ok(Err(e)) if is_rejected(&e) => return Err(rejected(&self.location, &e)),
                Ok(Err(e)) => return Err(unusable(&self.location, &e)),
                Err(_) => {
                    let what =
                        format!("the database {} did not answer within {} s", self.location, self.timeout.as_secs());
                    return Err(Failure::environment(what).next("check its load; windows are queued meanwhile"));
                }
            }
        }
    }

    async fn record_once(&self, windows: &[&Window]) -> Result<usize, Error> {
        let mut tx = self.pool.begin().await?;
        let recorded = record::record(&mut tx, windows).await?;
        tx.commit().await.map(|()| recorded)
    }

    /// Returns the data from `from_ms` (inclusive) to `to_ms` (exclusive), extended to whole minutes; the slice
    /// contains the actual interval. If both are equal, the minute of that time. Data older than [`Retention::minutes`]
    /// has a resolution of hours.
    ///
    /// # Errors
    /// The database is unavailable, or the slice has more than a million flows.
    pub async fn slice(&self, from_ms: i64, to_ms: i64) -> Result<Slice, Failure> {
        let work = async {
            let mut tx = self.pool.begin_reading().await?;
            slice::read(&mut tx, from_ms, to_ms).await
        };
        let slice = work.await.map_err(|e| unusable(&self.location, &e))?;
        slice.ok_or_else(|| {
            Failure::request(format!("more than {} flows are in that interval", slice::FLOWS_MAX))
                .next("request a shorter interval")
        })
    }

    pub async fn hosts(&self) -> Result<Vec<HostSummary>, Failure> {
        let work = async {
            let mut tx = self.pool.begin_reading().await?;
            slice::hosts(&mut tx).await
        };
        work.await.map_err(|e| unusable(&self.location, &e))
    }

    /// Deletes all data that was last active before a time.
    pub async fn forget(&self, before_ms: i64) -> Result<(), Failure> {
        retention::forget(&self.pool, before_ms).await.map_err(|e| unusable(&self.location, &e))
    }

    /// Applies a [`Retention`]. Call it about every hour; concurrent calls are safe.
    pub async fn retain(&self, retention: &Retention, now_ms: i64) -> Result<(), Failure> {
        retention::retain(&self.pool, retention, now_ms).await.map_err(|e| unusable(&self.location, &e))
    }

    pub async fn close(&self) {
        self.pool.close().await;
    }
}

fn is_url(text: &str) -> bool {
    text.starts_with("postgres://") || text.starts_with("postgresql://")
}

fn file_name(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Conflict with another writer: SQLite's lock, PostgreSQL's deadlock (40P01) or serialization failure (40001).
fn is_conflict(error: &Error) -> bool {
    let code = error.as_database_error().and_then(|e| e.code().map(|code| code.into_owned()));
    matches!(code.as_deref(), Some("40P01" | "40001")) || error.to_string().contains("is locked")
}

/// PostgreSQL: an invalid value (class 22), a violated constraint (23), a size limit (54). SQLite: too big (18), a
/// violated constraint (19 in the lowest byte), a wrong type (20).
fn is_rejected(error: &Error) -> bool {
    let Some(error) = error.as_database_error() else { return false };
    let code = error.code().unwrap_or_default();
    match code.len() {
        5 => ["22", "23", "54"].iter().any(|class| code.starts_with(class)),
        _ => code.parse::<u32>().is_ok_and(|code| (18..=20).contains(&(code & 0xff))),
    }
}

fn rejected(location: &str, error: &Error) -> Failure {
    Failure::request(format!("the database {location} rejects the content of a window"))
        .why(error.to_string())
        .next("report this with the window")
}

/// Writable by its owner and readable by its group, for `agent serve`, which has fewer permissions than the agent.
fn create_file(file: &Path) -> Result<(), Failure> {
    let cannot = |e: std::io::Error| {
        Failure::environment(format!("cannot create the database {}: {e}", file.display()))
            .next("check that its directory is writable, or name another file")
    };
    if let Some(directory) = file.parent() {
        std::fs::create_dir_all(directory).map_err(cannot)?;
    }
    // SQLite would make it world-readable
    match std::fs::OpenOptions::new().write(true).create_new(true).mode(0o640).open(file) {
        Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => Err(cannot(e)),
        _ => Ok(()),
    }
}

pub fn unusable(location: &str, error: &Error) -> Failure {
    let text = match error {
        Error::PoolTimedOut => "it does not answer or refuses connections".to_owned(),
        _ => error.to_string(),
    };
    let failure = Failure::environment(format!("cannot use the database {location}")).why(text.clone());
    let next = if text.contains("full") || text.contains("No space left") {
        "free some space; recorded data is safe"
    } else if text.contains("readonly") || text.contains("denied") {
        "grant the user of this program access to it, see docs/guides/flowdb.md"
    } else {
        "check that it is running and reachable; windows are queued meanwhile"
    };
    failure.next(next)
}

#[cfg(not(feature = "postgres"))]
async fn open_postgres(_url: &str, _timeout: Duration, _write: bool) -> Result<FlowDb, Failure> {
    Err(Failure::environment("this faultloom was built without PostgreSQL")
        .next("build it with `--features postgres`, or name a file for SQLite"))
}

#[cfg(feature = "postgres")]
async fn open_postgres(url: &str, timeout: Duration, write: bool) -> Result<FlowDb, Failure> {
    use sqlx::Connection;
    use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
    let options: PgConnectOptions = url.parse().map_err(|_: Error| {
        // the error text may contain the password
        Failure::request("the URL of the database is invalid")
            .next("write it as postgres://USER@HOST:PORT/NAME?sslmode=verify-full, see docs/guides/flowdb.md")
    })?;
    // a statement that timed out here must not continue on the server
    let statement_timeout = timeout.as_millis().to_string();
    let options = options.application_name("faultloom").options([("statement_timeout", statement_timeout.as_str())]);
    let name = options.get_database().unwrap_or_default();
    let location =
        format!("postgres://{}@{}:{}/{name}", options.get_username(), options.get_host(), options.get_port());
    // the pool would retry until the timeout and then not return the cause
    let first = tokio::time::timeout(timeout, sqlx::PgConnection::connect_with(&options)).await;
    let first = first.unwrap_or(Err(Error::PoolTimedOut)).map_err(|e| unusable(&location, &e))?;
    let _ = first.close().await;
    let pool = PgPoolOptions::new().max_connections(4).acquire_timeout(timeout);
    let pool = Pool::Postgres(pool.connect_with(options).await.map_err(|e| unusable(&location, &e))?);
    let compatible = if write { schema::migrate(&pool).await } else { schema::check(&pool).await };
    compatible.map_err(|incompatible| incompatible.failure(&location))?;
    Ok(FlowDb { pool, timeout, location })
}
