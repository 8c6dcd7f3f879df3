//! The agent's own counters, as a Prometheus text file in its state folder.
//!
//! A file and no listener: what has rights in the kernel is not to be reached over a network. The process that answers
//! queries has none of these rights and exposes the file.

use flows::{Losses, Source};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

/// Name of the file in the state folder.
pub const FILE: &str = "agent.prom";

#[derive(Clone, Debug, Default)]
pub struct Metrics {
    pub windows: u64,
    /// Flows of the last window.
    pub flows: u64,
    /// Connections that were begun or accepted, by the ends that were seen: a connection within the host counts twice.
    pub opened: u64,
    /// End of the last window, milliseconds since the epoch.
    pub last_window_ms: i64,
    /// Asking the kernel and looking up services.
    pub look: Duration,
    pub look_failures: u64,
    /// Writing to this host's store.
    pub keep: Duration,
    pub keep_failures: u64,
    pub fleet_failures: u64,
    /// Windows that wait for the fleet's store.
    pub spooled: u64,
    pub clock_jumps: u64,
    pub losses: Losses,
}

impl Metrics {
    pub fn text(&self, source: Source, agent: &str) -> String {
        let mut text = String::new();
        let mut metric = |name: &str, kind: &str, help: &str, lines: &[(&str, f64)]| {
            let _ = writeln!(text, "# HELP faultloom_agent_{name} {help}\n# TYPE faultloom_agent_{name} {kind}");
            for (labels, value) in lines {
                let _ = writeln!(text, "faultloom_agent_{name}{labels} {value}");
            }
        };
        let version = env!("CARGO_PKG_VERSION");
        let info = format!("{{agent=\"{agent}\",source=\"{source}\",version=\"{version}\"}}");
        metric("info", "gauge", "This run of the agent, and by which means it sees connections.", &[(&info, 1.0)]);
        metric("windows_total", "counter", "Windows that were taken.", &[("", self.windows as f64)]);
        metric("flows", "gauge", "Flows of the last window.", &[("", self.flows as f64)]);
        metric(
            "connection_ends_opened_total",
            "counter",
            "Ends of connections that were begun or accepted.",
            &[("", self.opened as f64)],
        );
        metric(
            "last_window_timestamp_seconds",
            "gauge",
            "End of the last window.",
            &[("", self.last_window_ms as f64 / 1e3)],
        );
        metric(
            "look_seconds_total",
            "counter",
            "Time taken to ask the kernel and to look up services.",
            &[("", self.look.as_secs_f64())],
        );
        metric(
            "keep_seconds_total",
            "counter",
            "Time taken to write to this host's store.",
            &[("", self.keep.as_secs_f64())],
        );
        metric(
            "failures_total",
            "counter",
            "What failed and is tried again.",
            &[
                ("{part=\"collector\"}", self.look_failures as f64),
                ("{part=\"store\"}", self.keep_failures as f64),
                ("{part=\"fleet\"}", self.fleet_failures as f64),
            ],
        );
        metric("spooled_windows", "gauge", "Windows that wait for the fleet's store.", &[("", self.spooled as f64)]);
        metric("clock_jumps_total", "counter", "Jumps of the wall clock.", &[("", self.clock_jumps as f64)]);
        metric(
            "lost_total",
            "counter",
            "What could not be seen or kept.",
            &[
                ("{what=\"connections, table full\"}", self.losses.table_full as f64),
                ("{what=\"events, recursion\"}", self.losses.recursion as f64),
                ("{what=\"windows\"}", self.losses.windows as f64),
                ("{what=\"owners, unreadable process\"}", self.losses.unreadable as f64),
            ],
        );
        text
    }
}

/// Replaces the file in one step, so that a reader sees a whole one. Readable by everybody: it holds no names.
pub fn write(state: &Path, text: &str) -> std::io::Result<()> {
    let path = state.join(FILE);
    let beside = state.join(format!("{FILE}.new"));
    let written = std::fs::File::create(&beside)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .and_then(|()| std::fs::rename(&beside, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_what_prometheus_reads() {
        let metrics = Metrics { windows: 3, look: Duration::from_millis(1_500), ..Metrics::default() };
        let text = metrics.text(Source::Ebpf, "0190");
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert!(name.starts_with("faultloom_agent_"), "{line}");
            assert!(!name.contains('{') || name.ends_with('}'), "{line}");
            value.parse::<f64>().unwrap();
        }
        assert!(text.contains("\nfaultloom_agent_windows_total 3\n"));
        assert!(text.contains("\nfaultloom_agent_look_seconds_total 1.5\n"));
        assert!(text.contains("source=\"ebpf\""));
    }
}
