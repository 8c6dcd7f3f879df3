//! Schema versions. `PRAGMA user_version` holds the version; a newer one is refused, an older one is copied before it is migrated.

use model::Failure;
use sqlx::sqlite::SqlitePool;
use std::path::Path;

/// Statement `i` leads from version `i` to `i + 1`. Never edit one that was released; append.
const MIGRATIONS: [&str; 1] = ["CREATE TABLE runs (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    title TEXT NOT NULL,
    spec TEXT NOT NULL,
    seed INTEGER NOT NULL,
    host TEXT NOT NULL,
    begin_ms INTEGER NOT NULL,
    end_ms INTEGER,
    verdict TEXT,
    summary TEXT NOT NULL
)"];

pub const VERSION: i64 = MIGRATIONS.len() as i64;

pub async fn migrate(pool: &SqlitePool, file: &Path) -> Result<(), Failure> {
    let found = version(pool).await?;
    if found > VERSION {
        return Err(Failure::environment(format!(
            "the store {} has version {found}, this faultloom knows {VERSION}",
            file.display()
        ))
        .why("a newer faultloom wrote it; nothing was changed")
        .next("use the newer faultloom, or another store with --home DIR"));
    }
    if found == VERSION {
        return Ok(());
    }
    // Two tools may start on a fresh store at once: the second waits for the lock and then finds the work done.
    let mut tx = pool.begin_with("BEGIN EXCLUSIVE").await.map_err(|e| crate::runs::broken(file, &e))?;
    let found: i64 = sqlx::query_scalar("PRAGMA user_version")
        .fetch_one(&mut *tx)
        .await
        .map_err(|e| crate::runs::broken(file, &e))?;
    if found > 0 && found < VERSION {
        let copy = file.with_extension(format!("db.before-v{VERSION}"));
        std::fs::copy(file, &copy).map_err(|e| {
            Failure::environment(format!("the store cannot be copied to {} before its migration: {e}", copy.display()))
                .next("free some space; nothing was changed")
        })?;
    }
    for statement in MIGRATIONS.iter().skip(usize::try_from(found).unwrap_or(0)) {
        sqlx::query(*statement).execute(&mut *tx).await.map_err(|e| crate::runs::broken(file, &e))?;
    }
    // PRAGMA takes no parameters; the text is made of a constant.
    sqlx::query(sqlx::AssertSqlSafe(format!("PRAGMA user_version = {VERSION}")))
        .execute(&mut *tx)
        .await
        .map_err(|e| crate::runs::broken(file, &e))?;
    tx.commit().await.map_err(|e| crate::runs::broken(file, &e))
}

async fn version(pool: &SqlitePool) -> Result<i64, Failure> {
    sqlx::query_scalar("PRAGMA user_version")
        .fetch_one(pool)
        .await
        .map_err(|e| Failure::environment(format!("the store cannot be read: {e}")))
}
