//! Schema versions: a newer one is refused, an older one is migrated. SQLite keeps the number in `PRAGMA user_version`, PostgreSQL in the
//! table `schema_version`.

use crate::connection::Pool;
use model::Failure;
use sqlx::sqlite::SqlitePool;
use sqlx::{AssertSqlSafe, Error};

/// Script `i` leads from version `i` to `i + 1`. Never edit one that was released; append, to both.
const SQLITE: [&str; 1] = [include_str!("../schema/sqlite.1.sql")];

pub enum Unfit {
    Newer { found: i64, known: i64 },
    Broken(Error),
}

impl From<Error> for Unfit {
    fn from(error: Error) -> Unfit {
        Unfit::Broken(error)
    }
}

impl Unfit {
    pub fn failure(self, place: &str) -> Failure {
        match self {
            Unfit::Newer { found, known } => {
                Failure::environment(format!("the database {place} has version {found}, this faultloom knows {known}"))
                    .why("a newer faultloom wrote it; nothing was changed")
                    .next("use the newer faultloom, or another database")
            }
            Unfit::Broken(error) => crate::flow_db::broken(place, &error),
        }
    }
}

pub async fn migrate(pool: &Pool) -> Result<(), Unfit> {
    match pool {
        Pool::Sqlite(pool) => migrate_sqlite(pool, &SQLITE).await,
        #[cfg(feature = "postgres")]
        Pool::Postgres(pool) => postgres::migrate(pool, &postgres::SCRIPTS).await,
    }
}

/// Refuses what this version cannot read, and changes nothing.
pub async fn check(pool: &Pool) -> Result<(), Unfit> {
    let (found, known) = match pool {
        Pool::Sqlite(pool) => (version(pool).await?, SQLITE.len() as i64),
        #[cfg(feature = "postgres")]
        Pool::Postgres(pool) => (postgres::version(pool).await?, postgres::SCRIPTS.len() as i64),
    };
    if found > known { Err(Unfit::Newer { found, known }) } else { Ok(()) }
}

async fn version(pool: &SqlitePool) -> Result<i64, Error> {
    sqlx::query_scalar("PRAGMA user_version").fetch_one(pool).await
}

async fn migrate_sqlite(pool: &SqlitePool, scripts: &[&'static str]) -> Result<(), Unfit> {
    let known = scripts.len() as i64;
    let found = version(pool).await?;
    if found > known {
        return Err(Unfit::Newer { found, known });
    }
    if found == known {
        return Ok(());
    }
    // two may start on a fresh database at once: the second waits for the lock and then finds the work done
    let mut tx = pool.begin_with("BEGIN EXCLUSIVE").await?;
    let found: i64 = sqlx::query_scalar("PRAGMA user_version").fetch_one(&mut *tx).await?;
    for script in scripts.iter().skip(usize::try_from(found).unwrap_or(0)) {
        sqlx::raw_sql(*script).execute(&mut *tx).await?;
    }
    // PRAGMA takes no parameters; the text is made of a number
    sqlx::raw_sql(AssertSqlSafe(format!("PRAGMA user_version = {known}"))).execute(&mut *tx).await?;
    Ok(tx.commit().await?)
}

#[cfg(feature = "postgres")]
mod postgres {
    use super::{Error, Unfit};
    use sqlx::postgres::PgPool;

    pub const SCRIPTS: [&str; 1] = [include_str!("../schema/postgres.1.sql")];

    /// Only one migrates at a time. Any number that nobody else uses.
    const LOCK: i64 = 0x636d_6462;

    pub async fn version(pool: &PgPool) -> Result<i64, Error> {
        let there: bool =
            sqlx::query_scalar("SELECT to_regclass('schema_version') IS NOT NULL").fetch_one(pool).await?;
        if !there {
            return Ok(0);
        }
        sqlx::query_scalar("SELECT version FROM schema_version").fetch_one(pool).await
    }

    pub async fn migrate(pool: &PgPool, scripts: &[&'static str]) -> Result<(), Unfit> {
        let known = scripts.len() as i64;
        let found = version(pool).await?;
        if found > known {
            return Err(Unfit::Newer { found, known });
        }
        if found == known {
            return Ok(());
        }
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
        sqlx::query("UPDATE schema_version SET version = $1").bind(known).execute(&mut *tx).await?;
        Ok(tx.commit().await?)
    }
}
