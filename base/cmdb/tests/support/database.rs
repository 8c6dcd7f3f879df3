//! The databases that a contract holds for: SQLite, and PostgreSQL where it is built in and installed.

use super::Folder;
use cmdb::Cmdb;

pub struct Database {
    pub url: String,
    _folder: Option<Folder>,
}

impl Database {
    pub async fn open(&self) -> Cmdb {
        Cmdb::open(&self.url).await.unwrap()
    }
}

/// A fresh one of each.
pub async fn each_database(name: &str) -> Vec<Database> {
    let folder = Folder::new(name);
    vec![Database { url: folder.file("cmdb.db"), _folder: Some(folder) }]
}
