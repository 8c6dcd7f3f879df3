//! Load generator for socket tracers: makes connections on loopback and counts them exactly.
//!
//! `serve` answers; `storm` opens short connections; `hold` keeps many connections open and busy. Each prints a JSON
//! line with its counts, which are the reference for those of a tracer. It respects the limits of a default machine:
//! 20,000 descriptors per process and about 28,000 ephemeral ports per address, so clients use several addresses of
//! 127.0.0.0/8.

mod hold;
mod serve;
mod spread;
mod storm;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser)]
#[command(about = "Makes connections and counts them exactly")]
enum Load {
    /// Answers every 16 bytes with 16 bytes; prints its port; ends with its standard input
    Serve(serve::Serve),
    /// Short connections, one after the other: connect, write, read, close. Prints counts and latencies
    Storm(storm::Storm),
    /// Many open and busy connections; prints `ready`, ends with standard input and prints counts
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
