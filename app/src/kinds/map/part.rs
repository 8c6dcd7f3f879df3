//! The part of a map that a spec selects.

use flows::Graph;
use map::{Direction, Map, neighborhood};
use model::Failure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MapDirection {
    #[default]
    Both,
    DependsOn,
    DependedBy,
}

/// What a node represents.
#[derive(JsonSchema)]
#[serde(rename_all = "lowercase")]
#[allow(dead_code)]
pub(super) enum MapBy {
    Process,
    Service,
    Host,
}

/// The fields that several specs have in common. The specs have them at their top level, because serde cannot reject
/// unknown fields next to a flattened struct.
pub(super) struct Part<'a> {
    pub of: Option<&'a str>,
    pub direction: MapDirection,
    pub hops: u64,
}

impl Part<'_> {
    /// The neighborhood of the node that `of` names, else everything.
    pub fn select(&self, map: &Map) -> Result<Graph, Failure> {
        let Some(of) = self.of else { return Ok(map.graph.clone()) };
        let direction = match self.direction {
            MapDirection::DependsOn => Direction::DependsOn,
            MapDirection::DependedBy => Direction::DependedBy,
            MapDirection::Both => Direction::Both,
        };
        Ok(neighborhood(&map.graph, &map.find(of)?, direction, self.hops as usize))
    }
}

/// The default number of hops.
pub(super) fn one() -> u64 {
    1
}
