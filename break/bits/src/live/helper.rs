//! A process of its own that brings one flip about: one [`Aim`] on its standard input, one [`Told`] on its standard output, both
//! JSON in a line.
//!
//! Whoever traces a process must not end in the middle of a step. So it is in a session of its own, where no terminal reaches it,
//! and ignores the signals that ask a program to end. It gives up when its standard input ends, which also happens when the tool
//! is killed, and always lets go first.
#![allow(unsafe_code)] // sessions and signals have no safe interface in the standard library

use super::{Aim, Wound, flip};
use model::{Failure, Family};
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Told {
    Flipped(Box<Wound>),
    /// Nothing was flipped.
    Refused {
        what: String,
        why: Option<String>,
        next: Option<String>,
        /// What was asked for is wrong, not the environment.
        request: bool,
    },
}

impl Told {
    pub fn result(self) -> Result<Wound, Failure> {
        match self {
            Told::Flipped(wound) => Ok(*wound),
            Told::Refused { what, why, next, request } => {
                let family = if request { Family::Request } else { Family::Environment };
                Err(Failure { why, next, ..Failure::new(family, what) })
            }
        }
    }
}

impl From<Result<Wound, Failure>> for Told {
    fn from(result: Result<Wound, Failure>) -> Told {
        match result {
            Ok(wound) => Told::Flipped(Box::new(wound)),
            Err(Failure { family, what, why, next }) => {
                Told::Refused { what, why, next, request: family == Family::Request }
            }
        }
    }
}

/// Reads a request, flips, answers. Blocks until the process is let go. Must be called in a process that does nothing else.
pub fn serve() -> io::Result<()> {
    outlive_the_tool();
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    let aim: Aim = serde_json::from_str(&line)?;
    let wanted = Arc::new(AtomicBool::new(true));
    let until = wanted.clone();
    std::thread::spawn(move || {
        let _ = io::copy(&mut io::stdin().lock().by_ref(), &mut io::sink());
        until.store(false, Ordering::Relaxed);
    });
    let told = Told::from(flip(&aim, &|| wanted.load(Ordering::Relaxed)));
    let mut answer = serde_json::to_vec(&told)?;
    answer.push(b'\n');
    io::stdout().write_all(&answer)
}

fn outlive_the_tool() {
    // SAFETY: neither call touches memory. A session cannot be made by the first process of a group, which then already is apart
    // from whoever started it.
    unsafe {
        libc::setsid();
        for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM] {
            libc::signal(signal, libc::SIG_IGN);
        }
    }
}
