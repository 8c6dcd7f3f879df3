//! A run: one recorded piece of work of any kind. Everything the tool shows comes from a run.

use crate::Verdict;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// UUIDv7: sorts by time of creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(pub uuid::Uuid);

impl RunId {
    pub fn create() -> RunId {
        RunId(uuid::Uuid::now_v7())
    }

    /// The last eight hex digits, for people to type. The first digits are the time and nearly equal within a day.
    pub fn short(&self) -> String {
        let text = self.0.simple().to_string();
        text[text.len() - 8..].to_owned()
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for RunId {
    type Err = uuid::Error;
    fn from_str(text: &str) -> Result<RunId, uuid::Error> {
        uuid::Uuid::parse_str(text).map(RunId)
    }
}

/// The name of a kind of run, as stored: `recording`, `sweep`. Any name can be stored and listed; what can be done with
/// a run is up to the code that implements its kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KindName(Cow<'static, str>);

impl KindName {
    pub const fn new(name: &'static str) -> KindName {
        KindName(Cow::Borrowed(name))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for KindName {
    fn from(name: String) -> KindName {
        KindName(Cow::Owned(name))
    }
}

impl fmt::Display for KindName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// The environment of a run. Measurements from different hosts are not compared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostFacts {
    pub tool_version: String,
    pub kernel: String,
    pub cpus: usize,
}

/// Metadata of a run. Times are milliseconds since the unix epoch. `spec` and `summary` are JSON that depends on the
/// kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    pub id: RunId,
    pub kind: KindName,
    pub title: String,
    pub spec: serde_json::Value,
    pub seed: u64,
    pub host: HostFacts,
    pub begin_ms: i64,
    /// None while the run is in progress, or if it was interrupted.
    pub end_ms: Option<i64>,
    pub verdict: Option<Verdict>,
    pub summary: serde_json::Value,
}
