//! Connections to both kinds of database, and execution of statements.

use crate::statement::{Change, Dialect, Kind, Query, Row, Value};
use sqlx::sqlite::SqlitePool;
use sqlx::{AssertSqlSafe, Error, Row as _};

pub enum Pool {
    Sqlite(SqlitePool),
    #[cfg(feature = "postgres")]
    Postgres(sqlx::postgres::PgPool),
}

/// A transaction. Rolled back when dropped without [`Transaction::commit`].
pub enum Transaction {
    Sqlite(sqlx::Transaction<'static, sqlx::Sqlite>),
    #[cfg(feature = "postgres")]
    Postgres(sqlx::Transaction<'static, sqlx::Postgres>),
}

impl Pool {
    /// Begins a transaction that writes. SQLite permits one writer, so the lock is taken at once; taking it later could
    /// fail.
    pub async fn begin(&self) -> Result<Transaction, Error> {
        Ok(match self {
            Pool::Sqlite(pool) => Transaction::Sqlite(pool.begin_with("BEGIN IMMEDIATE").await?),
            #[cfg(feature = "postgres")]
            Pool::Postgres(pool) => Transaction::Postgres(pool.begin().await?),
        })
    }

    /// Begins a transaction that reads one consistent state of the database.
    pub async fn begin_reading(&self) -> Result<Transaction, Error> {
        Ok(match self {
            Pool::Sqlite(pool) => Transaction::Sqlite(pool.begin().await?),
            #[cfg(feature = "postgres")]
            Pool::Postgres(pool) => {
                Transaction::Postgres(pool.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?)
            }
        })
    }

    pub async fn close(&self) {
        match self {
            Pool::Sqlite(pool) => pool.close().await,
            #[cfg(feature = "postgres")]
            Pool::Postgres(pool) => pool.close().await,
        }
    }
}

/// Serializes rows as a JSON array of arrays.
fn as_json(rows: &[Row]) -> String {
    serde_json::to_string(rows).unwrap_or_default()
}

#[cfg(feature = "postgres")]
type PgQuery<'q> = sqlx::query::Query<'q, sqlx::Postgres, sqlx::postgres::PgArguments>;

/// Binds each column as an array.
#[cfg(feature = "postgres")]
fn bound<'q>(query: PgQuery<'q>, change: &Change, rows: &[Row]) -> PgQuery<'q> {
    change.columns.iter().enumerate().fold(query, |query, (i, (_, kind))| match kind {
        Kind::Int => query.bind(rows.iter().map(|row| row[i].number()).collect::<Vec<Option<i64>>>()),
        _ => query.bind(rows.iter().map(|row| row[i].text().map(str::to_owned)).collect::<Vec<Option<String>>>()),
    })
}

impl Transaction {
    pub fn dialect(&self) -> Dialect {
        match self {
            Transaction::Sqlite(_) => Dialect::Sqlite,
            #[cfg(feature = "postgres")]
            Transaction::Postgres(_) => Dialect::Postgres,
        }
    }

    /// Runs a change over all rows at once and returns the number of changed rows. Does nothing without rows.
    pub async fn apply(&mut self, change: &Change, rows: &[Row]) -> Result<u64, Error> {
        if rows.is_empty() {
            return Ok(0);
        }
        // the text consists of constants only
        let text = AssertSqlSafe(change.text(self.dialect()));
        match self {
            Transaction::Sqlite(tx) => {
                sqlx::query(text).bind(as_json(rows)).execute(&mut **tx).await.map(|r| r.rows_affected())
            }
            #[cfg(feature = "postgres")]
            Transaction::Postgres(tx) => {
                bound(sqlx::query(text), change, rows).execute(&mut **tx).await.map(|r| r.rows_affected())
            }
        }
    }

    /// Runs a change that returns rows with columns of the given kinds.
    pub async fn apply_returning(&mut self, change: &Change, rows: &[Row], kinds: &[Kind]) -> Result<Vec<Row>, Error> {
        let text = AssertSqlSafe(change.text(self.dialect()));
        match self {
            Transaction::Sqlite(tx) => {
                let found = sqlx::query(text).bind(as_json(rows)).fetch_all(&mut **tx).await?;
                found.iter().map(|row| from_sqlite(row, kinds)).collect()
            }
            #[cfg(feature = "postgres")]
            Transaction::Postgres(tx) => {
                let found = bound(sqlx::query(text), change, rows).fetch_all(&mut **tx).await?;
                found.iter().map(|row| from_postgres(row, kinds)).collect()
            }
        }
    }

    pub async fn query(&mut self, query: &Query, parameters: &[i64]) -> Result<Vec<Row>, Error> {
        let text = query.text(self.dialect());
        match self {
            Transaction::Sqlite(tx) => {
                let bound = parameters.iter().fold(sqlx::query(text), |q, parameter| q.bind(*parameter));
                let found = bound.fetch_all(&mut **tx).await?;
                found.iter().map(|row| from_sqlite(row, query.columns)).collect()
            }
            #[cfg(feature = "postgres")]
            Transaction::Postgres(tx) => {
                let bound = parameters.iter().fold(sqlx::query(text), |q, parameter| q.bind(*parameter));
                let found = bound.fetch_all(&mut **tx).await?;
                found.iter().map(|row| from_postgres(row, query.columns)).collect()
            }
        }
    }

    pub async fn commit(self) -> Result<(), Error> {
        match self {
            Transaction::Sqlite(tx) => tx.commit().await,
            #[cfg(feature = "postgres")]
            Transaction::Postgres(tx) => tx.commit().await,
        }
    }
}

macro_rules! from_row {
    ($name:ident, $row:ty) => {
        fn $name(row: &$row, kinds: &[Kind]) -> Result<Row, Error> {
            let cell = |(i, kind): (usize, &Kind)| match kind {
                Kind::Int => Ok(row.try_get::<Option<i64>, _>(i)?.map_or(Value::Null, Value::Int)),
                _ => Ok(row.try_get::<Option<String>, _>(i)?.map_or(Value::Null, Value::Text)),
            };
            kinds.iter().enumerate().map(cell).collect()
        }
    };
}

from_row!(from_sqlite, sqlx::sqlite::SqliteRow);
#[cfg(feature = "postgres")]
from_row!(from_postgres, sqlx::postgres::PgRow);
