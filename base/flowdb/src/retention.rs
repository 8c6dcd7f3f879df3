//! Retention: minutes are merged into hours, and data older than the retention is deleted.

use crate::connection::Pool;
use crate::{HOUR_MS, MINUTE_MS};
use sqlx::Error;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Age up to which counts are stored per minute. Older ones are stored per hour.
    pub minutes: Duration,
    /// Age at which data is deleted.
    pub hours: Duration,
}

const DAY: Duration = Duration::from_secs(86_400);

impl Default for Retention {
    fn default() -> Retention {
        Retention { minutes: 7 * DAY, hours: 90 * DAY }
    }
}

/// `$1` is the start of the hour.
const SQLITE_HOUR: [&str; 4] = [
    "INSERT INTO flow_counts (from_ms, span_ms, flow, opened, established, failed, closed, open, sent, received) \
    SELECT $1, 3600000, flow, opened, established, failed, closed, open, sent, received FROM ( \
    SELECT flow, sum(opened) opened, sum(established) established, sum(failed) failed, sum(closed) closed, open, \
    sum(sent) sent, sum(received) received, max(from_ms) FROM flow_counts \
    WHERE span_ms = 60000 AND from_ms >= $1 AND from_ms < $1 + 3600000 GROUP BY flow) WHERE true \
    ON CONFLICT (span_ms, from_ms, flow) DO UPDATE SET opened = flow_counts.opened + excluded.opened, \
    established = flow_counts.established + excluded.established, failed = flow_counts.failed + excluded.failed, \
    closed = flow_counts.closed + excluded.closed, open = excluded.open, sent = flow_counts.sent + excluded.sent, \
    received = flow_counts.received + excluded.received",
    "DELETE FROM flow_counts WHERE span_ms = 60000 AND from_ms >= $1 AND from_ms < $1 + 3600000",
    "INSERT INTO losses \
    (from_ms, span_ms, host, boot, table_full, recursion, windows, unreadable, closed_unseen, between_polls) \
    SELECT $1, 3600000, host, boot, sum(table_full), sum(recursion), sum(windows), sum(unreadable), \
    sum(closed_unseen), sum(between_polls) FROM losses \
    WHERE span_ms = 60000 AND from_ms >= $1 AND from_ms < $1 + 3600000 GROUP BY host, boot \
    ON CONFLICT (span_ms, from_ms, host, boot) DO UPDATE SET table_full = losses.table_full + excluded.table_full, \
    recursion = losses.recursion + excluded.recursion, windows = losses.windows + excluded.windows, \
    unreadable = losses.unreadable + excluded.unreadable, \
    closed_unseen = losses.closed_unseen + excluded.closed_unseen, \
    between_polls = losses.between_polls + excluded.between_polls",
    "DELETE FROM losses WHERE span_ms = 60000 AND from_ms >= $1 AND from_ms < $1 + 3600000",
];

/// Deletes exactly the rows that it adds up, even if another writer adds to a minute meanwhile.
#[cfg(feature = "postgres")]
const POSTGRES_HOUR: [&str; 2] = [
    "WITH minutes AS (DELETE FROM flow_counts WHERE span_ms = 60000 AND from_ms >= $1 AND from_ms < $1 + 3600000 RETURNING *) \
    INSERT INTO flow_counts (from_ms, span_ms, flow, opened, established, failed, closed, open, sent, received) \
    SELECT $1, 3600000, flow, sum(opened), sum(established), sum(failed), sum(closed), \
    (array_agg(open ORDER BY from_ms DESC))[1], sum(sent), sum(received) FROM minutes GROUP BY flow ORDER BY flow \
    ON CONFLICT (span_ms, from_ms, flow) DO UPDATE SET opened = flow_counts.opened + excluded.opened, \
    established = flow_counts.established + excluded.established, failed = flow_counts.failed + excluded.failed, \
    closed = flow_counts.closed + excluded.closed, open = excluded.open, sent = flow_counts.sent + excluded.sent, \
    received = flow_counts.received + excluded.received",
    "WITH minutes AS (DELETE FROM losses WHERE span_ms = 60000 AND from_ms >= $1 AND from_ms < $1 + 3600000 RETURNING *) \
    INSERT INTO losses \
    (from_ms, span_ms, host, boot, table_full, recursion, windows, unreadable, closed_unseen, between_polls) \
    SELECT $1, 3600000, host, boot, sum(table_full), sum(recursion), sum(windows), sum(unreadable), \
    sum(closed_unseen), sum(between_polls) FROM minutes \
    GROUP BY host, boot ORDER BY host, boot \
    ON CONFLICT (span_ms, from_ms, host, boot) DO UPDATE SET table_full = losses.table_full + excluded.table_full, \
    recursion = losses.recursion + excluded.recursion, windows = losses.windows + excluded.windows, \
    unreadable = losses.unreadable + excluded.unreadable, \
    closed_unseen = losses.closed_unseen + excluded.closed_unseen, \
    between_polls = losses.between_polls + excluded.between_polls",
];

/// `$1` is the time before which data is deleted. Rows of services and flows hold the end of the last day of activity.
const FORGET: [&str; 9] = [
    "DELETE FROM flow_counts WHERE (span_ms = 60000 AND from_ms < $1 - 60000) OR (span_ms = 3600000 AND from_ms < $1 - 3600000)",
    "DELETE FROM losses WHERE (span_ms = 60000 AND from_ms < $1 - 60000) OR (span_ms = 3600000 AND from_ms < $1 - 3600000)",
    "DELETE FROM flows WHERE last_ms < $1",
    "DELETE FROM processes WHERE last_ms < $1",
    "DELETE FROM listeners WHERE coalesce(last_ms, \
    (SELECT last_ms FROM boots b WHERE b.host = listeners.host AND b.boot = listeners.boot), 0) < $1",
    "DELETE FROM host_addresses WHERE coalesce(last_ms, \
    (SELECT last_ms FROM boots b WHERE b.host = host_addresses.host AND b.boot = host_addresses.boot), 0) < $1",
    "DELETE FROM services WHERE last_ms < $1 AND NOT EXISTS (SELECT 1 FROM listeners l WHERE l.service = services.key)",
    "DELETE FROM boots WHERE last_ms < $1",
    "DELETE FROM hosts WHERE last_ms < $1",
];

/// Rows of agents record which windows are stored. They are kept longest, because a spool may be old.
const FORGET_AGENTS: &str = "DELETE FROM agents WHERE last_ms < $1";

/// Runs statements with one parameter in their own transaction.
async fn run(pool: &Pool, statements: &[&'static str], number: i64) -> Result<(), Error> {
    match pool {
        Pool::Sqlite(pool) => {
            let mut tx = pool.begin_with("BEGIN IMMEDIATE").await?;
            for statement in statements {
                sqlx::query(*statement).bind(number).execute(&mut *tx).await?;
            }
            tx.commit().await
        }
        #[cfg(feature = "postgres")]
        Pool::Postgres(pool) => {
            let mut tx = pool.begin().await?;
            // an hour of a large fleet may take long
            sqlx::query("SET LOCAL statement_timeout = 0").execute(&mut *tx).await?;
            for statement in statements {
                sqlx::query(*statement).bind(number).execute(&mut *tx).await?;
            }
            tx.commit().await
        }
    }
}

pub async fn forget(pool: &Pool, before_ms: i64) -> Result<(), Error> {
    // one hour at a time, because a long transaction would block writers
    for statement in FORGET.iter().chain([&FORGET_AGENTS]) {
        run(pool, &[statement], before_ms).await?;
    }
    Ok(())
}

pub async fn retain(pool: &Pool, retention: &Retention, now_ms: i64) -> Result<(), Error> {
    let before = |age: Duration| now_ms - i64::try_from(age.as_millis()).unwrap_or(i64::MAX / 2);
    forget(pool, before(retention.hours)).await?;
    let end_ms = before(retention.minutes).div_euclid(HOUR_MS) * HOUR_MS;
    while let Some(oldest_ms) = oldest_minute(pool).await?.filter(|oldest| *oldest < end_ms) {
        let hour_ms = oldest_ms.div_euclid(HOUR_MS) * HOUR_MS;
        match pool {
            Pool::Sqlite(_) => run(pool, &SQLITE_HOUR, hour_ms).await?,
            #[cfg(feature = "postgres")]
            Pool::Postgres(_) => run(pool, &POSTGRES_HOUR, hour_ms).await?,
        }
    }
    Ok(())
}

async fn oldest_minute(pool: &Pool) -> Result<Option<i64>, Error> {
    const OLDEST: &str = "SELECT min(from_ms) FROM (SELECT min(from_ms) from_ms FROM flow_counts WHERE span_ms = $1 \
        UNION ALL SELECT min(from_ms) FROM losses WHERE span_ms = $1) oldest";
    match pool {
        Pool::Sqlite(pool) => sqlx::query_scalar(OLDEST).bind(MINUTE_MS).fetch_one(pool).await,
        #[cfg(feature = "postgres")]
        Pool::Postgres(pool) => sqlx::query_scalar(OLDEST).bind(MINUTE_MS).fetch_one(pool).await,
    }
}
