//! A line of a campaign's log: a flip, a control, or a run during the user's own disturbance.

use super::Deviation;
use crate::flip::{Effect, Ending, Injection, Outcome};
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
        let failed = self.effect.ending != Ending::Exit(0);
        match (self.effect.activated, self.outcome) {
            (false, _) => "not flipped",
            (true, None) => "not judged",
            // only its output is judged, and clients do not notice a crash after the last message
            (true, Some(Outcome::None)) if failed => "no effect on the output",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crash_after_complete_output_is_not_named_no_effect() {
        let text = |ending: Ending| {
            let effect =
                Effect { hit: String::new(), activated: true, ending, crash: None, cpu_us: 0, refused_calls: 0 };
            let logged = Logged {
                variant: 0,
                id: 0,
                role: Role::Flip,
                injection: None,
                effect,
                outcome: Some(Outcome::None),
                deviation: None,
                remark: None,
                live: None,
            };
            logged.outcome_text()
        };
        assert_eq!(text(Ending::Exit(0)), "no effect");
        for ending in [Ending::Signal(11), Ending::Hang, Ending::Exit(1)] {
            assert_eq!(text(ending), "no effect on the output");
        }
    }
}
