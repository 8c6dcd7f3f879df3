//! The databases of the contract tests: SQLite, and PostgreSQL if it is built in and installed.

use super::Folder;
use flowdb::FlowDb;

pub struct Database {
    pub url: String,
    _folder: Option<Folder>,
}

impl Database {
    pub async fn open(&self) -> FlowDb {
        FlowDb::open(&self.url).await.unwrap()
    }
}

/// An empty database of each kind.
pub async fn each_database(name: &str) -> Vec<Database> {
    let folder = Folder::new(name);
    let sqlite = Database { url: folder.file("flowdb.db"), _folder: Some(folder) };
    [Some(sqlite), postgresql(name)].into_iter().flatten().collect()
}

#[cfg(feature = "postgres")]
fn postgresql(name: &str) -> Option<Database> {
    let cluster = super::postgres::Cluster::shared()?;
    Some(Database { url: cluster.database(name), _folder: None })
}

#[cfg(not(feature = "postgres"))]
fn postgresql(_name: &str) -> Option<Database> {
    None
}
