//! The stores of windows: this host's file, the fleet's database, and the spool before it.

use crate::daemon::Store;
use crate::fleet::{Queue, Remote};
use crate::keeper::Shelf;
use flowdb::{FlowDb, Retention, Spool};
use flows::Window;
use model::Failure;

/// Name of this host's store in the state folder.
pub const DATABASE: &str = "map.db";
/// Name of the spool's folder in the state folder.
pub const SPOOL: &str = "spool";

impl Shelf for FlowDb {
    async fn record(&self, windows: &[Window]) -> Result<(), Failure> {
        FlowDb::record(self, windows).await.map(|_| ())
    }
}

impl Store for FlowDb {
    async fn tidy(&self, now_ms: i64) -> Result<(), Failure> {
        self.retain(&Retention::default(), now_ms).await
    }
}

/// The fleet's store, by its URL.
pub struct Database(pub String);

impl Remote for Database {
    type Shelf = FlowDb;
    async fn connect(&self) -> Result<FlowDb, Failure> {
        FlowDb::open(&self.0).await
    }
}

impl Queue for Spool {
    fn append(&mut self, window: &Window) -> Result<(), Failure> {
        Spool::append(self, window)
    }
    fn oldest(&mut self, most: usize) -> Result<Vec<Window>, Failure> {
        Spool::oldest(self, most)
    }
    fn taken(&mut self, count: usize) -> Result<(), Failure> {
        Spool::taken(self, count)
    }
    fn set_aside(&mut self) -> Result<(), Failure> {
        Spool::set_aside(self)
    }
    fn waiting(&self) -> u64 {
        Spool::waiting(self)
    }
    fn dropped(&self) -> u64 {
        Spool::dropped(self)
    }
}
