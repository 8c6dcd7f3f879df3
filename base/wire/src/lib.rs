//! The message format: envelopes, histories, carriers, and which fault fires at a send.
//!
//! The reference implementation of `docs/formats/messages.md`. `spec/vectors`, which all SDKs must pass, are generated
//! from it. Source: 3MileBeach §4.2 and §4.3, deviations in the format document. No I/O, no clock: time is an argument.

pub mod accept;
pub mod bridge;
pub mod bytes;
pub mod call_id;
pub mod carrier;
pub mod conform;
pub mod envelope;
pub mod fault_effect;
pub mod history;
pub mod otlp;
pub mod piece;
pub mod plan;
pub mod scope;
pub mod select;
pub mod span;
pub mod tree;
pub mod truncate;
pub mod trust;
pub mod unreadable;

/// Why received bytes were refused. The codes are stable, see `spec/errors.json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    #[error("the envelope is larger than 2048 bytes")]
    Oversized,
    #[error("the bytes do not follow the format")]
    Malformed,
    #[error("the version byte is not supported")]
    UnsupportedVersion,
    #[error("the envelope has no signature")]
    Unsigned,
    #[error("the key id does not belong to this environment")]
    UnknownKey,
    #[error("the signature does not match")]
    BadSignature,
    #[error("the envelope was made for another environment")]
    WrongEnvironment,
    #[error("the envelope has expired")]
    Expired,
    #[error("the expiry lies more than 10 minutes ahead")]
    ExpiryTooFar,
    #[error("a plan needs a fault key, this is a trace key")]
    PlanNotPermitted,
    #[error("a plan holds at most 64 faults")]
    TooManyFaults,
    #[error("the fault kind is not supported")]
    UnknownFault,
    #[error("this plan was already used for this call")]
    Replayed,
    #[error("plan and evidence do not fit into 2048 bytes")]
    EnvelopeTooLarge,
}

impl WireError {
    pub fn code(self) -> &'static str {
        match self {
            WireError::Oversized => "oversized",
            WireError::Malformed => "malformed",
            WireError::UnsupportedVersion => "unsupported_version",
            WireError::Unsigned => "unsigned",
            WireError::UnknownKey => "unknown_key",
            WireError::BadSignature => "bad_signature",
            WireError::WrongEnvironment => "wrong_environment",
            WireError::Expired => "expired",
            WireError::ExpiryTooFar => "expiry_too_far",
            WireError::PlanNotPermitted => "plan_not_permitted",
            WireError::TooManyFaults => "too_many_faults",
            WireError::UnknownFault => "unknown_fault",
            WireError::Replayed => "replayed",
            WireError::EnvelopeTooLarge => "envelope_too_large",
        }
    }
}
