//! Why a program is not flipped in.

use crate::golden::Trouble;
use model::Failure;
use std::io;

/// What the user reads. Its own type, so that every error on the way becomes one by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(pub Failure);

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Refusal {
        Refusal(failure)
    }
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Refusal {
        let failure = Failure::environment("the flip engine could not go on").why(error.to_string());
        Refusal(failure.next("try it again; if it stays so, please report it with the program's command line"))
    }
}

impl From<Trouble> for Refusal {
    fn from(trouble: Trouble) -> Refusal {
        match trouble {
            Trouble::Io(error) => error.into(),
            Trouble::Call(what) => Failure::environment("the program cannot be repeated exactly")
                .why(what)
                .next(
                    "run it as one process that makes no code while it runs; a server in the foreground with --replay",
                )
                .into(),
            Trouble::Signal { signal, ip } => {
                Failure::environment(format!("the undisturbed program got signal {signal} at {ip:#x}"))
                    .why("only a program that runs through by itself can be compared with disturbed ones")
                    .next("run it by hand with the same arguments and input")
                    .into()
            }
        }
    }
}
