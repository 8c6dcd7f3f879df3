//! Why a request is not carried out.

use crate::tracing::golden::TraceError;
use model::Failure;
use std::io;

/// A failure for the user. A separate type, so that every error converts to one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(pub Failure);

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Refusal {
        Refusal(failure)
    }
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Refusal {
        let failure = Failure::environment("the flip engine failed").why(error.to_string());
        Refusal(failure.next("try it again; if it fails again, please report it with the program's command line"))
    }
}

impl From<TraceError> for Refusal {
    fn from(error: TraceError) -> Refusal {
        match error {
            TraceError::Io(error) => error.into(),
            TraceError::Unsupported(what) => Failure::environment("the program cannot be repeated exactly")
                .why(what)
                .next("run it as one process that generates no code at run time; a server in the foreground with --replay")
                .into(),
            TraceError::Signal { signal, ip } => {
                Failure::environment(format!("the undisturbed program got signal {signal} at {ip:#x}"))
                    .why("disturbed runs can be compared only with a run that completes without a signal")
                    .next("run it by hand with the same arguments and input")
                    .into()
            }
        }
    }
}
