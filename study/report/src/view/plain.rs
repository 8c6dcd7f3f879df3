//! The view of a kind of run that has none of its own: lines and tables.

use super::{Content, Head, RunView};
use crate::notes;
use model::Run;
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "block", rename_all = "kebab-case")]
pub enum PlainBlock {
    Line {
        text: String,
    },
    /// Every row has one cell per column.
    Table {
        columns: Vec<String>,
        rows: Vec<Vec<String>>,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PlainView {
    pub blocks: Vec<PlainBlock>,
}

impl PlainView {
    pub fn of(run: &Run, head: Head, blocks: Vec<PlainBlock>) -> RunView {
        RunView::new(run, head, Content::Plain(PlainView { blocks }), notes::of_run(run))
    }
}
