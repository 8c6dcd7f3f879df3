//! The database as its users see it.

use crate::connection::Pool;
use crate::{Retention, record, retention, schema, slice};
use flows::{HostId, Slice, Window};
use model::Failure;
use sqlx::Error;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long the database may take over one piece of work. After that it counts as down: an agent has other things to do.
const PATIENCE: Duration = Duration::from_secs(10);
const RETRY_PAUSE: Duration = Duration::from_millis(10);

pub struct FlowDb {
    pool: Pool,
    patience: Duration,
    /// Where it is, without password.
    place: String,
}

/// A host that reported something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownHost {
    pub id: HostId,
    pub name: String,
    /// Milliseconds since the epoch.
    pub first_ms: i64,
    pub last_ms: i64,
}

impl FlowDb {
    /// Opens a database and makes its tables, if there are none: a file of SQLite, or `postgres://USER[:PASSWORD]@HOST[:PORT]/NAME`.
    ///
    /// # Errors
    /// It cannot be reached or written, was written by a newer version, or this program was built without PostgreSQL.
    pub async fn open(path_or_url: &str) -> Result<FlowDb, Failure> {
        FlowDb::open_within(path_or_url, PATIENCE).await
    }

    /// As [`FlowDb::open`], with another time than 10 s after which the database counts as down.
    pub async fn open_within(path_or_url: &str, patience: Duration) -> Result<FlowDb, Failure> {
        if is_url(path_or_url) {
            return open_postgres(path_or_url, patience, true).await;
        }
        let file = Path::new(path_or_url);
        make_file(file)?;
        let options = SqliteConnectOptions::new()
            .filename(file)
            .journal_mode(SqliteJournalMode::Wal)
            // a window that a loss of power takes is no worse than one in which there was no power
            .synchronous(SqliteSynchronous::Normal)
            .busy_timeout(patience)
            // rows come sorted, so pages are not needed again soon
            .pragma("cache_size", "-512");
        let flowdb = FlowDb::connect(options, path_or_url, patience).await?;
        schema::migrate(&flowdb.pool).await.map_err(|unfit| unfit.failure(path_or_url))?;
        Ok(flowdb)
    }

    /// Opens a database only to read it: needs no right to write, and works while an agent writes.
    pub async fn read(path_or_url: &str) -> Result<FlowDb, Failure> {
        if is_url(path_or_url) {
            return open_postgres(path_or_url, PATIENCE, false).await;
        }
        let file = Path::new(path_or_url);
        // Without a log nobody writes, and where the folder may not be written SQLite could not make one to look into.
        let quiet = !file.with_file_name(format!("{}-wal", file_name(file))).exists();
        let options =
            SqliteConnectOptions::new().filename(file).read_only(true).immutable(quiet).busy_timeout(PATIENCE);
        let flowdb = FlowDb::connect(options, path_or_url, PATIENCE).await?;
        schema::check(&flowdb.pool).await.map_err(|unfit| unfit.failure(path_or_url))?;
        Ok(flowdb)
    }

    async fn connect(options: SqliteConnectOptions, place: &str, patience: Duration) -> Result<FlowDb, Failure> {
        let begin = Instant::now();
        // SQLite does not wait where a fresh file changes to its write-ahead log, so we do
        loop {
            match SqlitePoolOptions::new().max_connections(4).connect_with(options.clone()).await {
                Ok(pool) => return Ok(FlowDb { pool: Pool::Sqlite(pool), patience, place: place.to_owned() }),
                Err(e) if e.to_string().contains("locked") && begin.elapsed() < patience => {
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
                Err(e) => return Err(broken(place, &e)),
            }
        }
    }

    /// Records windows, all or none, each once however often it is recorded. Those of one agent in their order. The answer is how many
    /// were new.
    ///
    /// # Errors
    /// Of the family [`model::Family::Request`] if the database refuses what the windows hold: it will refuse them again. Otherwise it cannot be
    /// used now.
    pub async fn record(&self, windows: &[Window]) -> Result<usize, Failure> {
        let begin = Instant::now();
        loop {
            match tokio::time::timeout(self.patience, self.record_once(windows)).await {
                Ok(Ok(fresh)) => return Ok(fresh),
                Ok(Err(e)) if is_in_the_way(&e) && begin.elapsed() < self.patience => {
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
                Ok(Err(e)) if is_refused(&e) => return Err(refused(&self.place, &e)),
                Ok(Err(e)) => return Err(broken(&self.place, &e)),
                Err(_) => {
                    let what = format!("the database {} took longer than {} s", self.place, self.patience.as_secs());
                    return Err(Failure::environment(what).next("see what keeps it busy; windows wait meanwhile"));
                }
            }
        }
    }

    async fn record_once(&self, windows: &[Window]) -> Result<usize, Error> {
        let mut tx = self.pool.begin().await?;
        let fresh = record::record(&mut tx, windows).await?;
        tx.commit().await.map(|()| fresh)
    }

    /// What is known of the time from `from_ms` to before `to_ms`, in whole minutes: the slice says from when to when it really is. Of
    /// a moment, if both are equal. What is older than [`Retention::minutes`] is known in hours.
    ///
    /// # Errors
    /// The database fails, or the slice has more than a million flows.
    pub async fn slice(&self, from_ms: i64, to_ms: i64) -> Result<Slice, Failure> {
        let work = async {
            let mut tx = self.pool.begin_reading().await?;
            slice::read(&mut tx, from_ms, to_ms).await
        };
        let slice = work.await.map_err(|e| broken(&self.place, &e))?;
        slice.ok_or_else(|| {
            Failure::request(format!("more than {} flows were seen in that time", slice::MOST_FLOWS))
                .next("ask for a shorter time")
        })
    }

    pub async fn hosts(&self) -> Result<Vec<KnownHost>, Failure> {
        let work = async {
            let mut tx = self.pool.begin_reading().await?;
            slice::hosts(&mut tx).await
        };
        work.await.map_err(|e| broken(&self.place, &e))
    }

    /// Forgets everything that was last seen before a moment.
    pub async fn forget(&self, before_ms: i64) -> Result<(), Failure> {
        retention::forget(&self.pool, before_ms).await.map_err(|e| broken(&self.place, &e))
    }

    /// Adds up minutes to hours and forgets hours, as [`Retention`] says. To be called every hour or so; by several at once does no harm.
    pub async fn retain(&self, retention: &Retention, now_ms: i64) -> Result<(), Failure> {
        retention::retain(&self.pool, retention, now_ms).await.map_err(|e| broken(&self.place, &e))
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

/// Other writers: SQLite's lock, PostgreSQL's deadlock (40P01) or serialization failure (40001).
fn is_in_the_way(error: &Error) -> bool {
    let code = error.as_database_error().and_then(|e| e.code().map(|code| code.into_owned()));
    matches!(code.as_deref(), Some("40P01" | "40001")) || error.to_string().contains("is locked")
}

/// PostgreSQL: a value that cannot be (class 22), a broken constraint (23), more than an index or a row holds (54). SQLite: too big (18),
/// a broken constraint (19 in the lowest byte), a wrong type (20).
fn is_refused(error: &Error) -> bool {
    let Some(error) = error.as_database_error() else { return false };
    let code = error.code().unwrap_or_default();
    match code.len() {
        5 => ["22", "23", "54"].iter().any(|class| code.starts_with(class)),
        _ => code.parse::<u32>().is_ok_and(|code| (18..=20).contains(&(code & 0xff))),
    }
}

fn refused(place: &str, error: &Error) -> Failure {
    Failure::request(format!("the database {place} refuses what a window holds"))
        .why(error.to_string())
        .next("report it with the window")
}

/// Its owner may write, its group may read: that is who answers questions without the agent's rights.
fn make_file(file: &Path) -> Result<(), Failure> {
    let cannot = |e: std::io::Error| {
        Failure::environment(format!("the database {} cannot be made: {e}", file.display()))
            .next("check that its folder can be written, or name another file")
    };
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder).map_err(cannot)?;
    }
    // SQLite would make it readable for everybody
    match std::fs::OpenOptions::new().write(true).create_new(true).mode(0o640).open(file) {
        Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => Err(cannot(e)),
        _ => Ok(()),
    }
}

pub fn broken(place: &str, error: &Error) -> Failure {
    let text = match error {
        Error::PoolTimedOut => "it does not answer, or refuses connections".to_owned(),
        _ => error.to_string(),
    };
    let failure = Failure::environment(format!("the database {place} cannot be used")).why(text.clone());
    let next = if text.contains("full") || text.contains("No space left") {
        "free some space; what was recorded before is safe"
    } else if text.contains("readonly") || text.contains("denied") {
        "give the user of this program the right to it, see docs/guides/flowdb.md"
    } else {
        "check that it runs and can be reached; windows wait meanwhile"
    };
    failure.next(next)
}

#[cfg(not(feature = "postgres"))]
async fn open_postgres(_url: &str, _patience: Duration, _write: bool) -> Result<FlowDb, Failure> {
    Err(Failure::environment("this faultloom was built without PostgreSQL")
        .next("build it with `--features postgres`, or name a file for SQLite"))
}

#[cfg(feature = "postgres")]
async fn open_postgres(url: &str, patience: Duration, write: bool) -> Result<FlowDb, Failure> {
    use sqlx::Connection;
    use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
    let options: PgConnectOptions = url.parse().map_err(|_: Error| {
        // the error could quote the password
        Failure::request("the database's address is not understood")
            .next("write it as postgres://USER@HOST:PORT/NAME?sslmode=verify-full, see docs/guides/flowdb.md")
    })?;
    // what is given up here must not go on there
    let most = patience.as_millis().to_string();
    let options = options.application_name("faultloom").options([("statement_timeout", most.as_str())]);
    let name = options.get_database().unwrap_or_default();
    let place = format!("postgres://{}@{}:{}/{name}", options.get_username(), options.get_host(), options.get_port());
    // the pool would try again until its patience ends, and then not say why
    let first = tokio::time::timeout(patience, sqlx::PgConnection::connect_with(&options)).await;
    let first = first.unwrap_or(Err(Error::PoolTimedOut)).map_err(|e| broken(&place, &e))?;
    let _ = first.close().await;
    let pool = PgPoolOptions::new().max_connections(4).acquire_timeout(patience);
    let pool = Pool::Postgres(pool.connect_with(options).await.map_err(|e| broken(&place, &e))?);
    let fit = if write { schema::migrate(&pool).await } else { schema::check(&pool).await };
    fit.map_err(|unfit| unfit.failure(&place))?;
    Ok(FlowDb { pool, patience, place })
}
