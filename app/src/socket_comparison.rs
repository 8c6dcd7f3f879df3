//! The comparison of a run's calls with the sockets of its target, stored with the run for its report.

use flows::{Comparison, Graph};
use model::Failure;
use report::ComparedSockets;
use runs::RunDir;
use serde::{Deserialize, Serialize};

pub const FILE: &str = "sockets.json";

#[derive(Serialize, Deserialize)]
pub struct SocketComparison {
    pub graph: Graph,
    pub rows: Vec<Comparison>,
}

impl SocketComparison {
    pub fn view(&self) -> ComparedSockets<'_> {
        ComparedSockets { graph: &self.graph, rows: &self.rows }
    }
}

/// The stored comparison of this run, if any.
pub fn load(dir: &RunDir) -> Result<Option<SocketComparison>, Failure> {
    if dir.file(FILE).exists() { dir.read_json(FILE).map(Some) } else { Ok(None) }
}
