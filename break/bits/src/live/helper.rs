//! A separate process that makes one flip: it reads one [`Target`] from its standard input and writes one
//! [`HelperReply`] to its standard output, each as a line of JSON.
//!
//! A tracer must not end in the middle of a step. So this process has its own session, which no terminal signal
//! reaches, and ignores signals that request termination. It gives up when its standard input ends, which also happens
//! when the tool is killed, and always detaches first.
#![allow(unsafe_code)] // sessions and signals have no safe interface in the standard library

use super::{Injection, Target, flip};
use model::{Failure, Family};
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The result of the request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HelperReply {
    Flipped(Box<Injection>),
    /// Nothing was flipped.
    Refused {
        what: String,
        why: Option<String>,
        next: Option<String>,
        /// The request is wrong, not the environment.
        request: bool,
    },
}

impl HelperReply {
    pub fn result(self) -> Result<Injection, Failure> {
        match self {
            HelperReply::Flipped(injection) => Ok(*injection),
            HelperReply::Refused { what, why, next, request } => {
                let family = if request { Family::Request } else { Family::Environment };
                Err(Failure { why, next, ..Failure::new(family, what) })
            }
        }
    }
}

impl From<Result<Injection, Failure>> for HelperReply {
    fn from(result: Result<Injection, Failure>) -> HelperReply {
        match result {
            Ok(injection) => HelperReply::Flipped(Box::new(injection)),
            Err(Failure { family, what, why, next, field: _ }) => {
                HelperReply::Refused { what, why, next, request: family == Family::Request }
            }
        }
    }
}

/// Reads a request, makes the flip and replies. Blocks until the process is detached. Must be the only work of this
/// process.
pub fn serve() -> io::Result<()> {
    ignore_termination();
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    let target: Target = serde_json::from_str(&line)?;
    let needed = Arc::new(AtomicBool::new(true));
    let input_open = needed.clone();
    std::thread::spawn(move || {
        let _ = io::copy(&mut io::stdin().lock().by_ref(), &mut io::sink());
        input_open.store(false, Ordering::Relaxed);
    });
    let reply = HelperReply::from(flip(&target, &|| needed.load(Ordering::Relaxed)));
    let mut answer = serde_json::to_vec(&reply)?;
    answer.push(b'\n');
    io::stdout().write_all(&answer)
}

fn ignore_termination() {
    // SAFETY: neither call touches memory. `setsid` fails for the leader of a process group, which is
    // separate from the tool's already.
    unsafe {
        libc::setsid();
        for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM] {
            libc::signal(signal, libc::SIG_IGN);
        }
    }
}
