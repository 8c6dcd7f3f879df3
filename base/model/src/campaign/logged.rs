//! A line of a campaign's log: a flip, a control, or a run during the user's own disturbance.

use super::Deviation;
use crate::flip::{Effect, Injection, Outcome};
use serde::{Deserialize, Serialize};

/// The subject of a line of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    #[default]
    Flip,
    /// A fork without a fault, whose output must be golden.
    Control,
    /// A run during the user's own disturbance.
    Disturbed,
}

/// One line of the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Logged {
    /// Index into [`super::Campaign::variants`].
    pub variant: u32,
    pub id: u32,
    #[serde(default, skip_serializing_if = "is_flip")]
    pub role: Role,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub injection: Option<Injection>,
    pub effect: Effect,
    /// None: it could not be judged, for the reason in `remark`.
    pub outcome: Option<Outcome>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deviation: Option<Deviation>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
    /// Of a flip in a running process, where `effect` is that of the user's check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<LiveFlip>,
}

/// Details of a flip in a running process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveFlip {
    pub thread: i32,
    /// After the flip.
    #[serde(rename = "runs")]
    pub is_running: bool,
}

impl Logged {
    /// The outcome as text for users.
    pub fn outcome_text(&self) -> &'static str {
        match (self.effect.activated, self.outcome) {
            (false, _) => "not flipped",
            (true, None) => "not judged",
            (true, Some(Outcome::None)) => "no effect",
            (true, Some(Outcome::Undetected)) => "undetected",
            (true, Some(Outcome::Hardening)) => "detected by hardening",
            (true, Some(Outcome::Otherwise)) => "detected otherwise",
        }
    }
}

fn is_flip(role: &Role) -> bool {
    *role == Role::Flip
}
