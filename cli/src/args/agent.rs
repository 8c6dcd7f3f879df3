//! Arguments of `agent`.

use super::{AgentServe, AgentTrust};
use clap::{Args as ClapArgs, Subcommand};
use std::path::PathBuf;
use std::time::Duration;

#[derive(ClapArgs)]
pub struct Agent {
    #[command(subcommand)]
    pub part: Option<AgentPart>,
    #[command(flatten)]
    pub collection: Collection,
    /// Directory of windows, spool and counters [default: /var/lib/faultloom for root, else `agent` below --home]
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Also write every window to the store of a fleet: postgres://user@host/name
    #[arg(long, value_name = "URL", env = "FAULTLOOM_DATABASE", hide_env_values = true)]
    pub database: Option<String>,
    /// Print one window and exit
    #[arg(long)]
    pub once: bool,
    /// Exit after this time
    #[arg(long = "for", value_name = "TIME", value_parser = duration, conflicts_with = "once")]
    pub length: Option<Duration>,
    /// Lock name; prevents two agents on a host
    #[arg(long, value_name = "NAME", default_value = ::agent::lock::NAME)]
    pub lock: String,
}

#[derive(Subcommand)]
pub enum AgentPart {
    /// Print a systemd unit, or manifests for Kubernetes, with the least privileges for one mode
    Unit(AgentUnit),
    /// Serve this agent's observations to other hosts over TLS; needs no privileges except to read them
    Serve(AgentServe),
    /// Add a host to the list of hosts to query, with its key and token
    Trust(AgentTrust),
}

#[derive(ClapArgs)]
pub struct AgentUnit {
    #[command(flatten)]
    pub collection: Collection,
    /// Include the store of a fleet, configured in /etc/faultloom/agent.env
    #[arg(long)]
    pub fleet: bool,
    /// What starts it: a unit of systemd, or a DaemonSet of Kubernetes
    #[arg(long = "for", value_name = "FORM", default_value = "systemd", value_parser = ["systemd", "kubernetes"])]
    pub form: String,
    /// With --for kubernetes: the image with the tool
    #[arg(long, value_name = "IMAGE", default_value = concat!("faultloom:", env!("CARGO_PKG_VERSION")))]
    pub image: String,
}

#[derive(ClapArgs, Clone)]
pub struct Collection {
    /// How connections are observed
    #[arg(long, value_enum, default_value_t = ModeArg::Auto)]
    pub mode: ModeArg,
    /// Length of a window
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    pub interval: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ModeArg {
    /// The best method that this host supports; prints which, and why
    Auto,
    /// eBPF: counts every connection in the kernel, with its owner
    Ebpf,
    /// Polling: connections shorter than the interval are missed
    Polling,
    /// Polling, without the owners of other users' sockets
    Tuples,
}

/// `500ms`, `10s`, `5m`.
fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit_ms = match &text[digits.len()..] {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err("a time is a number with ms, s, m or h".to_owned()),
    };
    let number: u64 = digits.parse().map_err(|_| "a time is a whole number with ms, s, m or h".to_owned())?;
    match number.checked_mul(unit_ms) {
        Some(ms @ 10..=86_400_000) => Ok(Duration::from_millis(ms)),
        _ => Err("a time is from 10 ms to a day".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::duration;
    use std::time::Duration;

    #[test]
    fn times_have_a_unit_and_bounds() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        for wrong in ["", "5", "s", "1.5s", "-1s", "0s", "5 s", "9ms", "25h", "99999999999999999999h"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
