//! Arguments of `faultloom map`.

use app::time_arg::{Span, TimeArg};
use clap::Args as ClapArgs;
use std::path::PathBuf;

#[derive(ClapArgs)]
pub struct Map {
    /// Show only the neighborhood of a service, host, address, address:port, :port, pid, unit or container
    pub of: Option<String>,
    /// Only what it depends on
    #[arg(long, requires = "of", conflicts_with = "depended_by")]
    pub depends_on: bool,
    /// Only what depends on it
    #[arg(long, requires = "of")]
    pub depended_by: bool,
    /// Number of edges to follow from it
    #[arg(long, value_name = "N", requires = "of", default_value_t = 1, value_parser = clap::value_parser!(u64).range(0..=1000))]
    pub hops: u64,
    /// What a node represents
    #[arg(long, value_enum, default_value_t = MapBy::Service)]
    pub by: MapBy,
    #[command(flatten)]
    pub range: Range,
    #[command(flatten)]
    pub origin: Origin,
    /// Print it for Graphviz
    #[arg(long, conflicts_with = "mermaid")]
    pub dot: bool,
    /// Print it as Mermaid, for Markdown
    #[arg(long)]
    pub mermaid: bool,
    /// Resolve external addresses to names
    #[arg(long)]
    pub resolve: bool,
    /// Save it as a run, for `show`, `diff` and `report`
    #[arg(long)]
    pub save: bool,
    /// Compare it with the calls that this run recorded, and add the comparison to the run's report
    #[arg(long, value_name = "RUN", conflicts_with_all = ["of", "dot", "mermaid", "changed_since"])]
    pub beside: Option<String>,
    /// List every edge
    #[arg(long)]
    pub all: bool,
}

/// Range of time. Times are `15m` (ago), `14:30` (today, UTC) or `2026-11-21T14:30:00Z`.
#[derive(ClapArgs, Clone)]
pub struct Range {
    /// The length of time until now [default: 1h]
    #[arg(long, value_name = "TIME", conflicts_with_all = ["at", "since", "until"])]
    pub last: Option<Span>,
    /// The minute that contains this time
    #[arg(long, value_name = "TIME", conflicts_with_all = ["since", "until"])]
    pub at: Option<TimeArg>,
    /// Start of the range
    #[arg(long = "from", id = "since", value_name = "TIME")]
    pub since: Option<TimeArg>,
    /// End of the range [default: now]
    #[arg(long = "to", id = "until", value_name = "TIME", requires = "since")]
    pub until: Option<TimeArg>,
    /// Compare with a range of equal length that ended at this time
    #[arg(long, value_name = "TIME", conflicts_with_all = ["dot", "mermaid", "save"])]
    pub changed_since: Option<TimeArg>,
}

/// Where observations come from.
#[derive(ClapArgs, Clone)]
pub struct Origin {
    /// The agent's directory on this host [default: as `faultloom agent`]
    #[arg(long, value_name = "DIR", conflicts_with_all = ["database", "hosts", "now"])]
    pub state: Option<PathBuf>,
    /// The fleet's store: postgres://user@host/name
    #[arg(long, value_name = "URL", conflicts_with_all = ["hosts", "now"])]
    pub database: Option<String>,
    /// Query the agents of these hosts; the file lists address, fingerprint and token of each
    #[arg(long, value_name = "FILE", conflicts_with = "now")]
    pub hosts: Option<PathBuf>,
    /// Take one snapshot of this host, without an agent
    #[arg(long, conflicts_with_all = ["last", "at", "since", "changed_since"])]
    pub now: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum MapBy {
    Process,
    /// Container or pod, systemd unit, or program; replicas on several hosts are one
    Service,
    Host,
}

impl MapBy {
    pub fn by(self) -> map::By {
        match self {
            MapBy::Process => map::By::Process,
            MapBy::Service => map::By::Service,
            MapBy::Host => map::By::Host,
        }
    }
}
