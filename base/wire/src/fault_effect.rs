//! The effect of a fault on one call: whether the request is sent, how long the call waits, what the caller gets, and
//! which event is recorded.
//!
//! Pure functions over the table in `docs/formats/messages.md`, "Deciding about a send". Every SDK has the same two
//! functions in its fault dispatcher, checked by the vectors of kind `hook`. Libraries differ only in the exceptions
//! they raise.

use model::FaultKind;
use model::trace::Protocol;

/// The longest delay or hang in ms. Longer ones are shortened to it.
pub const WAIT_MS_MAX: u64 = 30_000;

/// gRPC codes of calls that ended without a reply, and of the status that a corrupted message leads to.
pub const UNKNOWN: u64 = 2;
pub const DEADLINE_EXCEEDED: u64 = 4;
pub const INTERNAL: u64 = 13;
pub const UNAVAILABLE: u64 = 14;

/// What the caller gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Connection refused.
    Refused,
    /// Connection reset while the reply was awaited.
    Reset,
    /// The caller's deadline or timeout.
    Deadline,
    /// A reply without a body that carries only a status.
    Status,
    /// The callee's reply.
    Reply,
    /// The callee's status with an empty body or message.
    Empty,
    /// The callee's reply with its second half overwritten.
    Corrupt,
    /// The call's real failure.
    Failed,
}

impl Outcome {
    pub fn as_str(self) -> &'static str {
        match self {
            Outcome::Refused => "refused",
            Outcome::Reset => "reset",
            Outcome::Deadline => "deadline",
            Outcome::Status => "status",
            Outcome::Reply => "reply",
            Outcome::Empty => "empty",
            Outcome::Corrupt => "corrupt",
            Outcome::Failed => "failed",
        }
    }
}

/// The effect of a fault before the request is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultEffect {
    /// How long the call waits first, in ms, at most [`WAIT_MS_MAX`].
    pub wait_ms: u64,
    /// How the call ends without being sent; `None`: it is sent after the wait.
    pub ends: Option<Ended>,
}

/// How a call ended for its caller, and how it is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    pub outcome: Outcome,
    /// The status that the caller gets: a gRPC code or, for an HTTP reply, its status.
    pub status: u64,
    /// RECV_RESPONSE if true, else CALL_FAILED.
    pub is_reply: bool,
    pub recorded_status: u64,
    /// The event is marked as a gap: the callee may have run, and its history is missing.
    pub is_gap: bool,
}

/// How a call that was sent really ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallResult {
    Reply { status: u64, has_history: bool },
    Failed { code: u64, has_history: bool },
}

fn failed(outcome: Outcome, code: u64) -> Ended {
    Ended { outcome, status: code, is_reply: false, recorded_status: code, is_gap: false }
}

/// The effect of a fault (its kind and argument) on a call whose caller waits `timeout_ms` at most.
pub fn fault_effect(protocol: Protocol, fault: Option<(FaultKind, u64)>, timeout_ms: Option<u64>) -> FaultEffect {
    let ends = |ended| FaultEffect { wait_ms: 0, ends: Some(ended) };
    let Some((kind, arg)) = fault else { return FaultEffect { wait_ms: 0, ends: None } };
    match kind {
        FaultKind::Unavailable => ends(failed(Outcome::Refused, UNAVAILABLE)),
        FaultKind::Reset => ends(failed(Outcome::Reset, UNAVAILABLE)),
        FaultKind::Deadline => ends(failed(Outcome::Deadline, DEADLINE_EXCEEDED)),
        FaultKind::Status => ends(Ended {
            outcome: Outcome::Status,
            status: visible_status(protocol, arg),
            is_reply: true,
            recorded_status: arg,
            is_gap: false,
        }),
        FaultKind::Delay | FaultKind::Hang => {
            let unset = kind == FaultKind::Hang && arg == 0;
            let planned = if unset { WAIT_MS_MAX } else { arg.min(WAIT_MS_MAX) };
            let wait_ms = timeout_ms.map_or(planned, |timeout| timeout.min(planned));
            // at the same moment, the caller's own limit wins
            let times_out = timeout_ms.is_some_and(|timeout| timeout <= planned);
            let ends = kind == FaultKind::Hang || times_out;
            FaultEffect { wait_ms, ends: ends.then(|| failed(Outcome::Deadline, DEADLINE_EXCEEDED)) }
        }
        FaultKind::LostReply | FaultKind::EmptyReply | FaultKind::CorruptReply => {
            FaultEffect { wait_ms: 0, ends: None }
        }
    }
}

/// The status that reaches the caller. One that cannot exist arrives as UNKNOWN (gRPC) or 500 (HTTP).
fn visible_status(protocol: Protocol, arg: u64) -> u64 {
    match protocol {
        Protocol::Grpc if (1..=16).contains(&arg) => arg,
        Protocol::Grpc => UNKNOWN,
        Protocol::Http if (200..=999).contains(&arg) => arg,
        Protocol::Http => 500,
    }
}

/// The effect of a fault on a call that was sent and ended with `result`.
pub fn reply_effect(protocol: Protocol, kind: Option<FaultKind>, result: CallResult) -> Ended {
    let (status, has_history) = match result {
        CallResult::Failed { code, has_history } => {
            return Ended { is_gap: !has_history, ..failed(Outcome::Failed, code) };
        }
        CallResult::Reply { status, has_history } => (status, has_history),
    };
    // a gRPC reply with an error status has no message to change
    let has_body = protocol == Protocol::Http || status == 0;
    let recorded_status = status;
    let reply = |outcome, status| Ended { outcome, status, is_reply: true, recorded_status, is_gap: !has_history };
    match kind {
        Some(FaultKind::LostReply) => Ended { is_gap: !has_history, ..failed(Outcome::Reset, UNAVAILABLE) },
        Some(FaultKind::EmptyReply) if has_body => reply(Outcome::Empty, status),
        Some(FaultKind::CorruptReply) if has_body && protocol == Protocol::Grpc => reply(Outcome::Corrupt, INTERNAL),
        Some(FaultKind::CorruptReply) if has_body => reply(Outcome::Corrupt, status),
        _ => reply(Outcome::Reply, status),
    }
}
