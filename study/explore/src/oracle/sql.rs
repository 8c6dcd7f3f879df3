//! Queries of a database after each request, by the user's own SQL. Read-only: a statement that changes something
//! fails, so the good run refuses it.

use model::Failure;
use sqlx::sqlite::{SqliteConnectOptions, SqliteRow};
use sqlx::{AssertSqlSafe, Connection, Row, SqliteConnection, TypeInfo, ValueRef};
use std::path::Path;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(5);
/// The number of the request, as in the request itself.
const PLACEHOLDER: &str = "{case}";
/// Between a query and its expected value. `=` alone is part of SQL.
const ARROW: &str = "=>";

/// A query that returns one value, and what it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlQuery {
    /// `postgres://USER@HOST/NAME`, or the file of an SQLite database.
    database: String,
    query: String,
    expected: String,
}

impl SqlQuery {
    /// `text`: `SELECT count(*) FROM orders => 1`.
    ///
    /// # Errors
    /// Request, if it has another form or the URL contains a password.
    pub fn parse(database: &str, text: &str) -> Result<SqlQuery, Failure> {
        let (query, expected) = text
            .rsplit_once(ARROW)
            .map(|(query, expected)| (query.trim(), expected.trim()))
            .filter(|(query, _)| !query.is_empty())
            .ok_or_else(|| {
                Failure::request(format!("'{text}' is not QUERY => VALUE"))
                    .next("such as --expect-sql 'SELECT count(*) FROM orders => 1'")
            })?;
        let has_password = is_postgres(database)
            && (database.contains("password=")
                || database.split_once("://").is_some_and(|(_, rest)| {
                    let authority = rest.split(['/', '?']).next().unwrap_or_default();
                    authority.rsplit_once('@').is_some_and(|(user, _)| user.contains(':'))
                }));
        if has_password {
            return Err(Failure::request("the URL of the database contains a password")
                .why("it would be stored with the run and shown in commands")
                .next("write postgres://USER@HOST/NAME, and set PGPASSWORD or ~/.pgpass"));
        }
        if !is_postgres(database) && database.contains("://") {
            return Err(Failure::request(format!("'{}' is no database that can be queried", scheme(database)))
                .next("name postgres://USER@HOST/NAME or a file of SQLite, or use a program of your own (--check)"));
        }
        Ok(SqlQuery { database: database.to_owned(), query: query.to_owned(), expected: expected.to_owned() })
    }

    /// Whether each request has a state of its own.
    pub fn is_numbered(&self) -> bool {
        self.query.contains(PLACEHOLDER)
    }

    pub fn describe(&self) -> String {
        format!("'{}' returns {}", self.query, self.expected)
    }

    pub(crate) fn violation(&self, value: &str) -> Option<String> {
        (value != self.expected).then(|| format!("query '{}' returned {value}, not {}", self.query, self.expected))
    }

    /// The value after the request with this number. The error is the reason.
    pub(crate) async fn value(&self, number: &str) -> Result<String, String> {
        let query = self.query.replace(PLACEHOLDER, number);
        let value = async {
            if is_postgres(&self.database) {
                postgres::value(&self.database, query).await
            } else {
                sqlite_value(Path::new(&self.database), query).await
            }
        };
        let value = tokio::time::timeout(TIMEOUT, value).await;
        let failed = |why: String| format!("query '{}' failed: {why}", self.query);
        value.unwrap_or_else(|_| Err(format!("no result within {} s", TIMEOUT.as_secs()))).map_err(failed)
    }
}

fn is_postgres(database: &str) -> bool {
    database.starts_with("postgres://") || database.starts_with("postgresql://")
}

fn scheme(database: &str) -> &str {
    database.split_once("://").map_or(database, |(scheme, _)| scheme)
}

fn one<R: Row>(rows: &[R]) -> Result<&R, String> {
    match rows {
        [row] if row.columns().len() == 1 => Ok(row),
        [row] => Err(format!("it returned {} columns, and one value is needed", row.columns().len())),
        rows => Err(format!("it returned {} rows, and one value is needed", rows.len())),
    }
}

/// The message of the database without our own words around it.
fn reason(error: &sqlx::Error) -> String {
    error.as_database_error().map_or_else(|| error.to_string(), |database| database.message().to_owned())
}

async fn sqlite_value(file: &Path, query: String) -> Result<String, String> {
    let options = SqliteConnectOptions::new().filename(file).read_only(true).busy_timeout(TIMEOUT);
    let failed = |error: sqlx::Error| reason(&error);
    let mut connection = SqliteConnection::connect_with(&options).await.map_err(failed)?;
    let rows = sqlx::raw_sql(AssertSqlSafe(query)).fetch_all(&mut connection).await;
    let value = rows.map_err(failed).and_then(|rows| sqlite_text(one(&rows)?).map_err(failed));
    let _ = connection.close().await;
    value
}

fn sqlite_text(row: &SqliteRow) -> Result<String, sqlx::Error> {
    let value = row.try_get_raw(0)?;
    if value.is_null() {
        return Ok("NULL".to_owned());
    }
    let kind = value.type_info().name().to_owned();
    Ok(match kind.as_str() {
        "INTEGER" | "BOOLEAN" => row.try_get_unchecked::<i64, _>(0)?.to_string(),
        "REAL" => format!("{:?}", row.try_get_unchecked::<f64, _>(0)?),
        _ => row.try_get_unchecked::<String, _>(0)?,
    })
}

#[cfg(feature = "postgres")]
mod postgres {
    use super::{TIMEOUT, one, reason};
    use sqlx::postgres::PgConnectOptions;
    use sqlx::{AssertSqlSafe, Connection, PgConnection, Row, ValueRef};

    pub async fn value(url: &str, query: String) -> Result<String, String> {
        let failed = |error: sqlx::Error| reason(&error);
        // the text of the error may contain the URL
        let options: PgConnectOptions = url.parse().map_err(|_| "the URL of the database is invalid".to_owned())?;
        let limit = TIMEOUT.as_millis().to_string();
        let options = options
            .application_name("faultloom")
            .options([("default_transaction_read_only", "on"), ("statement_timeout", limit.as_str())]);
        let mut connection = PgConnection::connect_with(&options).await.map_err(failed)?;
        // the simple protocol: every type is sent as text
        let rows = sqlx::raw_sql(AssertSqlSafe(query)).fetch_all(&mut connection).await;
        let value = rows.map_err(failed).and_then(|rows| {
            let row = one(&rows)?;
            let value = row.try_get_raw(0).map_err(failed)?;
            if value.is_null() {
                return Ok("NULL".to_owned());
            }
            value.as_str().map(str::to_owned).map_err(|error| error.to_string())
        });
        let _ = connection.close().await;
        value
    }
}

#[cfg(not(feature = "postgres"))]
mod postgres {
    pub async fn value(_url: &str, _query: String) -> Result<String, String> {
        Err("this faultloom was built without PostgreSQL; build it with `--features postgres`".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_of_another_form_and_passwords_are_refused() {
        for (database, text, why) in [
            ("shop.db", "SELECT 1", "QUERY => VALUE"),
            ("shop.db", "=> 1", "QUERY => VALUE"),
            ("postgres://shop:secret@db/shop", "SELECT 1 => 1", "contains a password"),
            ("postgres://db/shop?user=a&password=b", "SELECT 1 => 1", "contains a password"),
            ("mysql://db/shop", "SELECT 1 => 1", "'mysql' is no database"),
        ] {
            let failure = SqlQuery::parse(database, text).unwrap_err();
            assert!(failure.what.contains(why) && failure.exit() == model::Exit::Usage, "{failure}");
            assert!(!failure.to_string().contains("secret"), "{failure}");
        }
        let query = SqlQuery::parse("postgres://shop@db:5432/shop", "SELECT f(a => 1) => x y ").unwrap();
        assert_eq!((query.query.as_str(), query.expected.as_str()), ("SELECT f(a => 1)", "x y"));
    }

    async fn file(name: &str) -> std::path::PathBuf {
        let file = std::env::temp_dir().join(format!("faultloom-sql-{name}-{}", std::process::id()));
        let _ = std::fs::remove_file(&file);
        let options = SqliteConnectOptions::new().filename(&file).create_if_missing(true);
        let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
        let setup = "CREATE TABLE orders (id INTEGER, item TEXT, price REAL); \
                     INSERT INTO orders VALUES (7, 'mug', 2.5), (8, NULL, 3)";
        sqlx::raw_sql(AssertSqlSafe(setup.to_owned())).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        file
    }

    #[tokio::test]
    async fn one_value_is_read_as_text() {
        let file = file("value").await;
        let database = file.to_str().unwrap();
        let value = async |text: &str| SqlQuery::parse(database, text).unwrap().value("7").await;
        for (query, expected) in [
            ("SELECT count(*) FROM orders", "2"),
            ("SELECT item FROM orders WHERE id = {case}", "mug"),
            ("SELECT item FROM orders WHERE id = 8", "NULL"),
            ("SELECT price FROM orders WHERE id = 7", "2.5"),
        ] {
            assert_eq!(value(&format!("{query} => ")).await.as_deref(), Ok(expected), "{query}");
        }
        for (query, why) in [
            ("SELECT id FROM orders", "it returned 2 rows"),
            ("SELECT id FROM orders WHERE id = 1", "it returned 0 rows"),
            ("SELECT id, item FROM orders WHERE id = 7", "it returned 2 columns"),
            ("SELECT id FROM absent", "no such table"),
            ("DELETE FROM orders", "readonly"),
            ("SELECT 1; DELETE FROM orders", "readonly"),
        ] {
            let error = value(&format!("{query} => 1")).await.unwrap_err();
            assert!(error.contains(why) && error.starts_with(&format!("query '{query}' failed")), "{error}");
        }
        assert_eq!(value("SELECT count(*) FROM orders => 2").await.as_deref(), Ok("2"), "nothing was changed");
        std::fs::remove_file(&file).unwrap();
        assert!(value("SELECT 1 => 1").await.unwrap_err().contains("failed"), "a missing file is not created");
    }
}
