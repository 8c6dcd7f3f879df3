//! The agent's own counters, as a Prometheus text file in its state directory.
//!
//! The agent writes a file instead of listening, because a process with these capabilities must not be reachable over a
//! network. The unprivileged `agent serve` exposes the file.

use flows::{Losses, Source};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

/// File name in the state directory.
pub const FILE: &str = "agent.prom";

#[derive(Clone, Debug, Default)]
pub struct Metrics {
    pub windows: u64,
    /// Flows of the last window.
    pub flows: u64,
    /// Ends of connections that were opened or accepted; a connection within the host counts twice.
    pub opened: u64,
    /// End of the last window, milliseconds since the epoch.
    pub last_window_ms: i64,
    /// Time spent on reading from the kernel and identifying services.
    pub collect_time: Duration,
    pub collect_failures: u64,
    /// Time spent on writing to this host's store.
    pub write_time: Duration,
    pub write_failures: u64,
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
        metric("info", "gauge", "This run of the agent and its source of connections.", &[(&info, 1.0)]);
        metric("windows_total", "counter", "Windows collected.", &[("", self.windows as f64)]);
        metric("flows", "gauge", "Flows of the last window.", &[("", self.flows as f64)]);
        metric(
            "connection_ends_opened_total",
            "counter",
            "Ends of connections that were opened or accepted.",
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
            "Time spent on reading from the kernel and identifying services.",
            &[("", self.collect_time.as_secs_f64())],
        );
        metric(
            "keep_seconds_total",
            "counter",
            "Time spent on writing to this host's store.",
            &[("", self.write_time.as_secs_f64())],
        );
        metric(
            "failures_total",
            "counter",
            "Failures that are retried.",
            &[
                ("{part=\"collector\"}", self.collect_failures as f64),
                ("{part=\"store\"}", self.write_failures as f64),
                ("{part=\"fleet\"}", self.fleet_failures as f64),
            ],
        );
        metric("spooled_windows", "gauge", "Windows that wait for the fleet's store.", &[("", self.spooled as f64)]);
        metric("clock_jumps_total", "counter", "Jumps of the wall clock.", &[("", self.clock_jumps as f64)]);
        metric(
            "closed_unseen_total",
            "counter",
            "Connections whose end no event reported; a comparison with the kernel's sockets closed them.",
            &[("", self.losses.closed_unseen as f64)],
        );
        metric(
            "between_polls_total",
            "counter",
            "Ends of TCP connections that the kernel opened and no poll found.",
            &[("", self.losses.between_polls as f64)],
        );
        metric(
            "lost_total",
            "counter",
            "Data that could not be collected or stored.",
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

/// Replaces the file atomically. It is world-readable, because it contains no names.
pub fn write(state: &Path, text: &str) -> std::io::Result<()> {
    let path = state.join(FILE);
    let temporary = state.join(format!("{FILE}.new"));
    let written = std::fs::File::create(&temporary)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .and_then(|()| std::fs::rename(&temporary, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_has_prometheus_format() {
        let metrics = Metrics { windows: 3, collect_time: Duration::from_millis(1_500), ..Metrics::default() };
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
