//! Arguments of `faultloom agent serve` and `agent trust`.

use clap::Args as ClapArgs;
use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(ClapArgs)]
pub struct AgentServe {
    /// Where other hosts ask
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7411")]
    pub listen: SocketAddr,
    /// The agent's folder [default: as `faultloom agent`]
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Key and token, made at first start [default: `serve` below --home]
    #[arg(long, value_name = "DIR")]
    pub keys: Option<PathBuf>,
    /// Where Prometheus asks for the agent's counters
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7412")]
    pub metrics: SocketAddr,
    /// Tell no counters
    #[arg(long, conflicts_with = "metrics")]
    pub no_metrics: bool,
}

#[derive(ClapArgs)]
pub struct AgentTrust {
    /// HOST:PORT of the other host's `agent serve`
    pub address: String,
    /// sha256:…, as it prints it
    pub fingerprint: String,
    /// Its token, or @FILE with it, beside the list of hosts
    #[arg(long, value_name = "TOKEN")]
    pub token: String,
    /// The list of hosts [default: `hosts` below --home]
    #[arg(long, value_name = "FILE")]
    pub hosts: Option<PathBuf>,
}
