//! A line of a campaign's log: one flip, one run that was left alone, or one beside a disturbance.

use super::Deviation;
use crate::flip::{Effect, Injection, Outcome};
use serde::{Deserialize, Serialize};

/// What a line of the log is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    #[default]
    Flip,
    /// A fork without a fault: its output must be the golden one.
    Control,
    /// A run while a disturbance of the user's own acted.
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
    /// None: the judge could not say, for the reason in `remark`.
    pub outcome: Option<Outcome>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deviation: Option<Deviation>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
    /// Of a flip in a process that ran already. `effect` then tells how the user's check ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<LiveFlip>,
}

/// What else is known of a flip in a process that ran already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveFlip {
    pub thread: i32,
    /// The process, afterwards.
    pub runs: bool,
}

impl Logged {
    /// What came of it, for people.
    pub fn words(&self) -> &'static str {
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
