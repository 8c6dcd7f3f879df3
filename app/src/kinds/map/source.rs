//! Sources of a map's observations.

use crate::event::Progress;
use crate::text::time;
use crate::{Context, snapshot};
use flowdb::FlowDb;
use flows::Slice;
use model::Failure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;

/// In milliseconds since the epoch, UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Range {
    pub from_ms: i64,
    pub to_ms: i64,
}

impl Range {
    /// The range of equal length that ends at `end_ms`.
    pub fn ending_at(self, end_ms: i64) -> Range {
        Range { from_ms: end_ms - (self.to_ms - self.from_ms), to_ms: end_ms }
    }
}

/// Source of the observations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The sockets of this host as they are now, without an agent.
    Snapshot,
    /// The database of this host's agent.
    Agent { database: PathBuf },
    /// The store of a fleet: `postgres://user@host/name`.
    Database { url: String },
    /// The agents of other hosts; the file lists address, fingerprint and token of each.
    Hosts { file: PathBuf },
}

/// Observations of a range, and warnings about how they were collected.
pub struct Observed {
    pub slice: Slice,
    pub remarks: Vec<String>,
}

pub type Observing<'a> = Pin<Box<dyn Future<Output = Result<Observed, Failure>> + Send + 'a>>;

/// Queries the agents of other hosts. The network protocol belongs to a layer above the use cases.
pub trait HostQuery: Sync {
    fn query<'a>(&'a self, file: &'a Path, range: Range) -> Observing<'a>;
}

/// Observations for a map.
///
/// # Errors
/// Environment if the source cannot be read, unknown if it has no data for this range, aborted if canceled.
pub(super) async fn observe(
    context: &Context,
    source: &Source,
    range: Range,
    hosts: &dyn HostQuery,
) -> Result<Observed, Failure> {
    let observed = context.unless_canceled("the map", observations(context, source, range, hosts)).await?;
    let Slice { from_ms, to_ms, hosts } = &observed.slice;
    context.progress(Progress::RangeObserved { from_ms: *from_ms, to_ms: *to_ms, hosts: hosts.len() as u64 });
    Ok(observed)
}

async fn observations(
    context: &Context,
    source: &Source,
    range: Range,
    hosts: &dyn HostQuery,
) -> Result<Observed, Failure> {
    match source {
        Source::Snapshot => {
            let (slice, remarks) = snapshot::collect()?;
            Ok(Observed { slice, remarks })
        }
        Source::Database { url } => read(url, range).await,
        Source::Hosts { file } => hosts.query(file, range).await,
        Source::Agent { database } if !database.exists() => Err(no_agent(context, database)),
        Source::Agent { database } => read(&database.to_string_lossy(), range).await,
    }
}

async fn read(location: &str, range: Range) -> Result<Observed, Failure> {
    let flowdb = FlowDb::read(location).await?;
    let slice = flowdb.slice(range.from_ms, range.to_ms).await?;
    if slice.hosts.is_empty() {
        let hosts = flowdb.hosts().await?;
        let last = hosts.iter().max_by_key(|host| host.last_ms);
        let why = last.map_or("the store has no windows at all".to_owned(), |host| {
            format!("the last window of {} ends at {}", host.name, time(host.last_ms))
        });
        flowdb.close().await;
        return Err(Failure::unknown("there are no observations of that time")
            .why(why)
            .next("choose another time (--last 1d), or check that the agent runs")
            .field("range"));
    }
    flowdb.close().await;
    Ok(Observed { slice, remarks: Vec::new() })
}

fn no_agent(context: &Context, database: &Path) -> Failure {
    Failure::environment("no agent has run on this host yet").why(format!("there is no {}", database.display())).next(
        format!(
            "start one: {} (a systemd unit: {} unit); or take a snapshot: {} --now",
            context.command("agent"),
            context.command("agent"),
            context.command("map")
        ),
    )
}

/// `2026-11-21 19:00:00Z … 20:00:00Z`.
pub fn range_text(slice: &Slice) -> String {
    let [from, to] = [slice.from_ms, slice.to_ms].map(time);
    let to = if from[..10] == to[..10] { to[11..].to_owned() } else { to };
    format!("{from} … {to}")
}
