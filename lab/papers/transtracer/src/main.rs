//! Connections of every kind on loopback, and their exact number: what a tracer of sockets is measured with.
//!
//! `serve` answers; `storm` makes short connections, `hold` keeps many open and busy. Each says in one JSON line what it
//! did, which is the truth that a tracer's counts are compared with. Limits of a plain machine are minded: a process may
//! have 20,000 descriptors, an address some 28,000 ephemeral ports, so clients spread over the addresses of 127.0.0.0/8.

mod hold;
mod serve;
mod spread;
mod storm;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser)]
#[command(about = "Connections of every kind, and their exact number")]
enum Load {
    /// Answers every 16 bytes with 16 bytes; prints its port; ends with standard input
    Serve(serve::Serve),
    /// Short connections, one after the other: connect, ask, read, close. Prints counts and latencies
    Storm(storm::Storm),
    /// Many connections, all of them open and busy; prints `ready`, then ends with standard input and prints counts
    Hold(hold::Hold),
    /// One connection (internal: what `storm --process-each` starts)
    #[command(subcommand, hide = true)]
    Once(Once),
}

#[derive(Subcommand)]
enum Once {
    To { address: std::net::SocketAddr },
}

fn main() -> ExitCode {
    let result = match Load::parse() {
        Load::Serve(serve) => serve.run(),
        Load::Storm(storm) => storm.run(),
        Load::Hold(hold) => hold.run(),
        Load::Once(Once::To { address }) => storm::exchange(address).map(|_| ()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::FAILURE
        }
    }
}
