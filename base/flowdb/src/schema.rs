//! Schema versions: rejects newer ones and migrates older ones. SQLite stores the version in `PRAGMA user_version`,
//! PostgreSQL in the table `schema_version`.

use crate::connection::Pool;
use model::Failure;
use sqlx::sqlite::SqlitePool;
use sqlx::{AssertSqlSafe, Error};

/// Script `i` migrates from version `i` to `i + 1`. Never edit a released script; append to both lists.
const SQLITE: [&str; 2] = [include_str!("../schema/sqlite.1.sql"), include_str!("../schema/sqlite.2.sql")];

pub enum Incompatible {
    Newer {
        found: i64,
        supported: i64,
    },
    /// This user may not change the tables.
    #[cfg(feature = "postgres")]
    Older {
        found: i64,
        supported: i64,
    },
    Broken(Error),
}

impl From<Error> for Incompatible {
    fn from(error: Error) -> Incompatible {
        Incompatible::Broken(error)
    }
}

impl Incompatible {
    pub fn failure(self, location: &str) -> Failure {
        match self {
            Incompatible::Newer { found, supported } => Failure::environment(format!(
                "the database {location} has version {found}; this faultloom supports up to {supported}"
            ))
            .why("it was written by a newer faultloom; nothing was changed")
            .next("use the newer faultloom, or another database"),
            #[cfg(feature = "postgres")]
            Incompatible::Older { found, supported } => Failure::environment(format!(
                "the database {location} has version {found}; this faultloom writes version {supported}"
            ))
            .why("this user may not change its tables")
            .next("run `faultloom agent --once --database` with a URL of the tables' owner, then again"),
            Incompatible::Broken(error) => crate::flow_db::unusable(location, &error),
        }
    }
}

pub async fn migrate(pool: &Pool) -> Result<(), Incompatible> {
    match pool {
        Pool::Sqlite(pool) => migrate_sqlite(pool, &SQLITE).await,
        #[cfg(feature = "postgres")]
        Pool::Postgres(pool) => postgres::migrate(pool, &postgres::SCRIPTS).await,
    }
}

/// Rejects a version that is too new. Changes nothing.
pub async fn check(pool: &Pool) -> Result<(), Incompatible> {
    let (found, supported) = match pool {
        Pool::Sqlite(pool) => (version(pool).await?, SQLITE.len() as i64),
        #[cfg(feature = "postgres")]
        Pool::Postgres(pool) => (postgres::version(pool).await?, postgres::SCRIPTS.len() as i64),
    };
    if found > supported { Err(Incompatible::Newer { found, supported }) } else { Ok(()) }
}

async fn version(pool: &SqlitePool) -> Result<i64, Error> {
    sqlx::query_scalar("PRAGMA user_version").fetch_one(pool).await
}

async fn migrate_sqlite(pool: &SqlitePool, scripts: &[&'static str]) -> Result<(), Incompatible> {
    let supported = scripts.len() as i64;
    let found = version(pool).await?;
    if found > supported {
        return Err(Incompatible::Newer { found, supported });
    }
    if found == supported {
        return Ok(());
    }
    // two processes may open a new database at once: the second waits for the lock and finds the work done
    let mut tx = pool.begin_with("BEGIN EXCLUSIVE").await?;
    let found: i64 = sqlx::query_scalar("PRAGMA user_version").fetch_one(&mut *tx).await?;
    for script in scripts.iter().skip(usize::try_from(found).unwrap_or(0)) {
        sqlx::raw_sql(*script).execute(&mut *tx).await?;
    }
    // PRAGMA has no parameters; the text contains only a number
    sqlx::raw_sql(AssertSqlSafe(format!("PRAGMA user_version = {supported}"))).execute(&mut *tx).await?;
    Ok(tx.commit().await?)
}

#[cfg(feature = "postgres")]
mod postgres {
    use super::{Error, Incompatible};
    use sqlx::postgres::PgPool;

    pub const SCRIPTS: [&str; 2] = [include_str!("../schema/postgres.1.sql"), include_str!("../schema/postgres.2.sql")];

    /// Advisory lock of the migration; an arbitrary number.
    const LOCK: i64 = 0x636d_6462;

    pub async fn version(pool: &PgPool) -> Result<i64, Error> {
        let exists: bool =
            sqlx::query_scalar("SELECT to_regclass('schema_version') IS NOT NULL").fetch_one(pool).await?;
        if !exists {
            return Ok(0);
        }
        sqlx::query_scalar("SELECT version FROM schema_version").fetch_one(pool).await
    }

    pub async fn migrate(pool: &PgPool, scripts: &[&'static str]) -> Result<(), Incompatible> {
        let supported = scripts.len() as i64;
        let found = version(pool).await?;
        if found > supported {
            return Err(Incompatible::Newer { found, supported });
        }
        if found == supported {
            return Ok(());
        }
        match run(pool, scripts).await {
            Err(error) if found > 0 && is_denied(&error) => Err(Incompatible::Older { found, supported }),
            result => Ok(result?),
        }
    }

    async fn run(pool: &PgPool, scripts: &[&'static str]) -> Result<(), Error> {
        let mut tx = pool.begin().await?;
        sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(LOCK).execute(&mut *tx).await?;
        sqlx::raw_sql(
            "CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL);
            INSERT INTO schema_version SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM schema_version)",
        )
        .execute(&mut *tx)
        .await?;
        let found: i64 = sqlx::query_scalar("SELECT version FROM schema_version").fetch_one(&mut *tx).await?;
        for script in scripts.iter().skip(usize::try_from(found).unwrap_or(0)) {
            sqlx::raw_sql(*script).execute(&mut *tx).await?;
        }
        let supported = scripts.len() as i64;
        sqlx::query("UPDATE schema_version SET version = $1").bind(supported).execute(&mut *tx).await?;
        tx.commit().await
    }

    /// Insufficient privilege.
    fn is_denied(error: &Error) -> bool {
        error.as_database_error().is_some_and(|error| error.code().as_deref() == Some("42501"))
    }
}
