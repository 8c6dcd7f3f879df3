//! Schema versions. `PRAGMA user_version` holds the version; a newer one is refused, an older one is copied before it
//! is migrated.

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

pub async fn migrate(pool: &SqlitePool, file: &Path) -> Result<(), Failure> {
    migrate_by(&MIGRATIONS, pool, file).await
}

async fn migrate_by(statements: &[&'static str], pool: &SqlitePool, file: &Path) -> Result<(), Failure> {
    let newest = statements.len() as i64;
    let unusable = |e: sqlx::Error| crate::runs::unusable(file, &e);
    let found = version(pool).await?;
    if found > newest {
        return Err(Failure::environment(format!(
            "the store {} has version {found}, this faultloom supports {newest}",
            file.display()
        ))
        .why("a newer faultloom wrote it; nothing was changed")
        .next("use the newer faultloom, or another store with --home DIR"));
    }
    if found == newest {
        return Ok(());
    }
    // A copy of the file alone would lack the write-ahead log. The copy gets its final name once the lock is held and
    // the version is certain.
    let copy = file.with_extension(format!("db.before-v{newest}"));
    let partial = file.with_extension(format!("db.before-v{newest}.{}", std::process::id()));
    let not_copied = |e: String| {
        let _ = std::fs::remove_file(&partial);
        Failure::environment(format!("the store cannot be copied to {} before its migration: {e}", copy.display()))
            .next("free some space; nothing was changed")
    };
    if found > 0 {
        let _ = std::fs::remove_file(&partial);
        // SQLite accepts an empty file and keeps its rights
        crate::private::options().write(true).create_new(true).open(&partial).map_err(|e| not_copied(e.to_string()))?;
        let path = partial.to_str().ok_or_else(|| not_copied("its path is not UTF-8".to_owned()))?;
        sqlx::query("VACUUM INTO $1").bind(path).execute(pool).await.map_err(|e| not_copied(e.to_string()))?;
    }
    // Two tools may start on a fresh store at once: the second waits for the lock and then finds the work done.
    let mut tx = pool.begin_with("BEGIN EXCLUSIVE").await.map_err(unusable)?;
    let found: i64 = sqlx::query_scalar("PRAGMA user_version").fetch_one(&mut *tx).await.map_err(unusable)?;
    if found >= newest {
        let _ = std::fs::remove_file(&partial);
        return Ok(());
    }
    if partial.exists() {
        std::fs::rename(&partial, &copy).map_err(|e| not_copied(e.to_string()))?;
    }
    for statement in statements.iter().skip(usize::try_from(found).unwrap_or(0)) {
        sqlx::query(*statement).execute(&mut *tx).await.map_err(unusable)?;
    }
    // PRAGMA takes no parameters; the statement contains only a number.
    sqlx::query(sqlx::AssertSqlSafe(format!("PRAGMA user_version = {newest}")))
        .execute(&mut *tx)
        .await
        .map_err(unusable)?;
    tx.commit().await.map_err(unusable)
}

async fn version(pool: &SqlitePool) -> Result<i64, Failure> {
    sqlx::query_scalar("PRAGMA user_version")
        .fetch_one(pool)
        .await
        .map_err(|e| Failure::environment(format!("the store cannot be read: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};

    async fn open(file: &Path) -> SqlitePool {
        let options =
            SqliteConnectOptions::new().filename(file).create_if_missing(true).journal_mode(SqliteJournalMode::Wal);
        SqlitePoolOptions::new().max_connections(1).connect_with(options).await.unwrap()
    }

    async fn words(pool: &SqlitePool) -> Vec<String> {
        sqlx::query_scalar("SELECT * FROM words").fetch_all(pool).await.unwrap()
    }

    #[tokio::test]
    async fn before_a_migration_the_store_is_copied_with_its_write_ahead_log() {
        const ONE: &str = "CREATE TABLE words (word TEXT)";
        const TWO: &str = "UPDATE words SET word = 'new'";
        let home = std::env::temp_dir().join(format!("faultloom-schema-{} 'it''s'", std::process::id()));
        let _ = std::fs::remove_dir_all(&home);
        std::fs::create_dir_all(&home).unwrap();
        let file = home.join("store.db");
        let pool = open(&file).await;
        migrate_by(&[ONE], &pool, &file).await.unwrap();
        sqlx::query("INSERT INTO words VALUES ('old')").execute(&pool).await.unwrap();
        migrate_by(&[ONE, TWO], &pool, &file).await.unwrap(); // the log was not written back: the pool is open
        assert_eq!(words(&pool).await, ["new"]);
        let copy = open(&home.join("store.db.before-v2")).await;
        assert_eq!((words(&copy).await, version(&copy).await.unwrap()), (vec!["old".to_owned()], 1));
        migrate_by(&[ONE, TWO], &pool, &file).await.unwrap(); // nothing to do
        let failure = migrate_by(&[ONE], &pool, &file).await.unwrap_err();
        assert!(failure.to_string().contains("has version 2, this faultloom supports 1"), "{failure}");
        copy.close().await;
        pool.close().await;
        let mut left: Vec<_> = std::fs::read_dir(&home).unwrap().map(|f| f.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["store.db", "store.db.before-v2"]);
        std::fs::remove_dir_all(home).unwrap();
    }
}
