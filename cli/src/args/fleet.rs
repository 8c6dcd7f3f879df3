//! Arguments of `faultloom agent serve` and `agent trust`.

use clap::Args as ClapArgs;
use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(ClapArgs)]
pub struct AgentServe {
    /// Address to listen on for other hosts
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7411")]
    pub listen: SocketAddr,
    /// The agent's directory [default: as `faultloom agent`]
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Directory of key and token, created at the first start [default: `serve` below --home]
    #[arg(long, value_name = "DIR")]
    pub keys: Option<PathBuf>,
    /// Address of the agent's metrics for Prometheus
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7412")]
    pub metrics: SocketAddr,
    /// Serve no metrics
    #[arg(long, conflicts_with = "metrics")]
    pub no_metrics: bool,
}

#[derive(ClapArgs)]
pub struct AgentTrust {
    /// HOST:PORT of the other host's `agent serve`
    pub address: String,
    /// sha256:…, as `agent serve` prints it
    pub fingerprint: String,
    /// Its token, or @FILE that contains it, in the directory of the host list
    #[arg(long, value_name = "TOKEN")]
    pub token: String,
    /// The list of hosts [default: `hosts` below --home]
    #[arg(long, value_name = "FILE")]
    pub hosts: Option<PathBuf>,
}
