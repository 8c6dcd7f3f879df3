//! What a front end shows of a run: blocks of typed content. How a block is drawn is the front end's choice.

use campaign::verdict;
use flows::Graph;
use map::Change as GraphChange;
use model::Fault;
use model::campaign::Campaign;
use model::sweep::{Bug, Space, Unexplained};
use model::trace::Trace;
use serde_json::{Map, Value};

/// The content of a run or of a comparison: JSON fields for programs, blocks for people.
#[derive(Default)]
pub struct View {
    /// Fields next to `run` in the JSON form.
    pub fields: Map<String, Value>,
    pub blocks: Vec<Block>,
}

impl View {
    /// `fields` must be an object.
    pub fn new(fields: Value, blocks: Vec<Block>) -> View {
        let fields = match fields {
            Value::Object(fields) => fields,
            other => [("result".to_owned(), other)].into_iter().collect(),
        };
        View { fields, blocks }
    }
}

/// Text may come from a target; front ends escape control characters.
pub enum Block {
    Line(String),
    Table(Table),
    /// Requests with the faults that were planned for them.
    Traces {
        traces: Vec<Trace>,
        faults: Vec<Fault>,
    },
    Spaces(Vec<Space>),
    Bugs {
        bugs: Vec<Bug>,
        unexplained: Vec<Unexplained>,
    },
    Graph(Graph),
    GraphChanges {
        before: Graph,
        after: Graph,
        changes: Vec<GraphChange>,
    },
    Campaign {
        campaign: Campaign,
        doubts: Vec<String>,
    },
    /// Differences of two runs, one line each.
    Changes(Vec<Change>),
}

impl Block {
    pub fn campaign(campaign: Campaign) -> Block {
        let (_, doubts) = verdict::verdict(&campaign.variants);
        Block::Campaign { campaign, doubts }
    }
}

/// Every row has one cell per column.
#[derive(Clone, Debug, Default)]
pub struct Table {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    Same,
    Different,
    Removed,
    Added,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub mark: Mark,
    pub subject: String,
    pub before: Option<String>,
    pub after: Option<String>,
    /// Whether the difference is a fault that was injected.
    pub injected: bool,
}
