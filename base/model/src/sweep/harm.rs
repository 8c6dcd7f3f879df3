//! What a bug does to users, and how its request ends.

use serde::{Deserialize, Serialize};

/// In the order of reports, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Harm {
    /// A call that changes state succeeded, and the user still got an error.
    StateChanged,
    Crash,
    /// The status is that of a success, the content is not.
    WrongContent,
    /// The request could have succeeded, or failed sooner.
    Avoidable,
    /// The handler passes the callee's error on, and nothing had happened yet.
    HardDependency,
}

impl Harm {
    /// A heading for people.
    pub fn describe(self) -> &'static str {
        match self {
            Harm::StateChanged => "state changed, and the user got an error",
            Harm::Crash => "crash",
            Harm::WrongContent => "wrong or missing content",
            Harm::Avoidable => "avoidable failure",
            Harm::HardDependency => "hard dependency",
        }
    }
}

/// How a failing request ended, as far as it was observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// The error went through the handlers: each service on its way answered.
    ReturnedError,
    /// A process ended, or a connection was closed without a reply.
    Crashed,
    /// No reply within the timeout of the request.
    NoReply,
    /// A success that violates a condition on its content.
    WrongContent,
    /// A success that took longer than allowed.
    TooSlow,
}
