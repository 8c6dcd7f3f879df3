//! Stores of windows (this host's SQLite file, the fleet's PostgreSQL database), and the spool as a queue.

use crate::retry_queue::WindowQueue;
use flowdb::{FlowDb, Retention, Spool};
use flows::Window;
use model::{Failure, Family};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// File name of this host's store in the state directory.
pub const DATABASE: &str = "map.db";
/// Name of the spool's directory in the state directory.
pub const SPOOL: &str = "spool";

/// A store of windows. Recording is idempotent: a window that the store already has is not counted again.
pub trait WindowStore: Send {
    /// Records windows of one agent, in order.
    ///
    /// # Errors
    /// Of the family [`Family::Request`] if the store rejects the content of a window. All others are worth a retry.
    fn record(&mut self, windows: &[Arc<Window>]) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Removes data older than the store's retention.
    fn remove_expired(&mut self, now_ms: i64) -> impl Future<Output = Result<(), Failure>> + Send;
}

impl WindowStore for FlowDb {
    async fn record(&mut self, windows: &[Arc<Window>]) -> Result<(), Failure> {
        FlowDb::record(self, windows).await.map(|_| ())
    }

    async fn remove_expired(&mut self, now_ms: i64) -> Result<(), Failure> {
        self.retain(&Retention::default(), now_ms).await
    }
}

/// Time for connecting and recording one batch; after that the database counts as unavailable.
const FLEET_TIMEOUT: Duration = Duration::from_secs(60);

/// The fleet's database. Connects when needed, and again after a failure.
pub struct FleetDatabase {
    url: String,
    connection: Option<FlowDb>,
}

impl FleetDatabase {
    pub fn new(url: &str) -> FleetDatabase {
        FleetDatabase { url: url.to_owned(), connection: None }
    }
}

impl WindowStore for FleetDatabase {
    async fn record(&mut self, windows: &[Arc<Window>]) -> Result<(), Failure> {
        let (url, connection) = (&self.url, self.connection.take());
        let recorded = tokio::time::timeout(FLEET_TIMEOUT, async {
            let connection = match connection {
                Some(connection) => connection,
                None => {
                    tracing::debug!("connecting to the fleet's store");
                    FlowDb::open(url).await.map_err(retryable)?
                }
            };
            let recorded = connection.record(windows).await;
            Ok((connection, recorded))
        })
        .await;
        let (connection, recorded) =
            recorded.unwrap_or_else(|_| Err(Failure::environment("the fleet's store does not answer")))?;
        // keep the connection if only the content was rejected
        if recorded.as_ref().err().is_none_or(|failure| failure.family == Family::Request) {
            self.connection = Some(connection);
        }
        recorded.map(|_| ()).map_err(|failure| match failure.family {
            Family::Request => failure.next(format!(
                "report it with {} of the spool, where rejected windows are kept",
                flowdb::spool::REFUSED
            )),
            _ => failure,
        })
    }

    /// Retention of the fleet's database is up to its operator.
    async fn remove_expired(&mut self, _now_ms: i64) -> Result<(), Failure> {
        Ok(())
    }
}

/// A failed connection must not count as a rejected window.
fn retryable(failure: Failure) -> Failure {
    Failure { family: Family::Environment, ..failure }
}

impl WindowQueue for Spool {
    fn append(&mut self, window: Window) -> Result<(), Failure> {
        Spool::append(self, &window)
    }

    fn oldest(&mut self, max: usize) -> Result<Vec<Arc<Window>>, Failure> {
        Ok(Spool::oldest(self, max)?.into_iter().map(Arc::new).collect())
    }

    fn remove(&mut self, count: usize) -> Result<(), Failure> {
        Spool::remove(self, count)
    }

    fn reject_oldest(&mut self) -> Result<(), Failure> {
        Spool::reject_oldest(self)
    }

    fn len(&self) -> u64 {
        Spool::waiting(self)
    }

    fn dropped(&self) -> u64 {
        Spool::dropped(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_connection_is_never_taken_for_a_rejected_window() {
        let failure = retryable(Failure::request("connection refused"));
        assert_eq!((failure.family, failure.what.as_str()), (Family::Environment, "connection refused"));
    }

    #[tokio::test]
    async fn an_unreachable_database_is_retryable() {
        let mut database = FleetDatabase::new("/proc/no/such/file.db");
        let failure = database.record(&[]).await.unwrap_err();
        assert_ne!(failure.family, Family::Request, "{failure}");
    }
}
