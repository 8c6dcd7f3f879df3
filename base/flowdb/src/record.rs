//! Writes windows to the database in one transaction, each window once.

use crate::batch::Batch;
use crate::connection::Transaction;
use crate::sequences::Sequences;
use crate::statement::{Change, Kind, Row};
use crate::writes;
use flows::Window;
use sqlx::Error;
use std::collections::BTreeMap;
use uuid::Uuid;

/// Maximum number of rows per statement.
const PART: usize = 250;

/// Records the windows that were not recorded before and returns their number.
pub async fn record(tx: &mut Transaction, windows: &[&Window]) -> Result<usize, Error> {
    let mut recorded = lock_agents(tx, windows).await?;
    let is_new = |window: &&&Window| recorded.entry(window.agent).or_default().insert(window.sequence);
    let fresh: Vec<&Window> = windows.iter().filter(is_new).copied().collect();
    if !fresh.is_empty() {
        write(tx, &Batch::of(&fresh)).await?;
        tx.apply(&writes::RECORDED, &recorded_rows(windows, &recorded)).await?;
    }
    Ok(fresh.len())
}

async fn write(tx: &mut Transaction, batch: &Batch<'_>) -> Result<(), Error> {
    tx.apply(&writes::HOSTS, &batch.hosts()).await?;
    tx.apply(&writes::BOOTS, &batch.boots()).await?;
    for (removed, present) in batch.address_changes() {
        tx.apply(&writes::ADDRESSES_REMOVED, &removed).await?;
        tx.apply(&writes::ADDRESSES, &present).await?;
    }
    apply_in_parts(tx, &writes::SERVICES, batch.services()).await?;
    apply_in_parts(tx, &writes::SERVICES_ACTIVE, batch.services_active()).await?;
    apply_in_parts(tx, &writes::PROCESSES, batch.processes()).await?;
    for (removed, present) in batch.listener_changes() {
        tx.apply(&writes::LISTENERS_REMOVED, &removed).await?;
        tx.apply(&writes::LISTENERS, &present).await?;
    }
    apply_in_parts(tx, &writes::FLOWS, batch.flows()).await?;
    apply_in_parts(tx, &writes::FLOW_COUNTS, batch.counts()).await?;
    tx.apply(&writes::LOSSES, &batch.losses()).await?;
    Ok(())
}

/// Applies rows in parts, because a row needs ten times the memory of its source. Keeps the order of the rows.
async fn apply_in_parts(
    tx: &mut Transaction,
    change: &Change,
    rows: impl Iterator<Item = Row> + Send,
) -> Result<(), Error> {
    let mut rows = rows.fuse();
    loop {
        let part: Vec<Row> = rows.by_ref().take(PART).collect();
        tx.apply(change, &part).await?;
        if part.len() < PART {
            return Ok(());
        }
    }
}

/// The last window of each agent, with start and end of all its windows.
fn by_agent<'w>(windows: &[&'w Window]) -> BTreeMap<Uuid, (&'w Window, i64, i64)> {
    let mut agents = BTreeMap::new();
    for window in windows.iter().copied() {
        let (last, from_ms, to_ms) = agents.entry(window.agent).or_insert((window, window.from_ms, window.to_ms));
        (*last, *from_ms, *to_ms) = (window, window.from_ms.min(*from_ms), window.to_ms.max(*to_ms));
    }
    agents
}

async fn lock_agents(tx: &mut Transaction, windows: &[&Window]) -> Result<BTreeMap<Uuid, Sequences>, Error> {
    let row = |(agent, (window, from_ms, to_ms)): (Uuid, (&Window, i64, i64))| -> Row {
        vec![
            agent.to_string().as_str().into(),
            window.host.id.0.as_str().into(),
            window.host.boot.as_str().into(),
            window.source.as_str().into(),
            from_ms.into(),
            to_ms.into(),
        ]
    };
    let rows: Vec<Row> = by_agent(windows).into_iter().map(row).collect();
    let found = tx.apply_returning(&writes::AGENTS, &rows, &[Kind::Text, Kind::Text]).await?;
    let parse = |row: &Row| {
        let agent = Uuid::parse_str(row[0].text()?).ok()?;
        Some((agent, Sequences::parse(row[1].text()?)))
    };
    Ok(found.iter().filter_map(parse).collect())
}

fn recorded_rows(windows: &[&Window], recorded: &BTreeMap<Uuid, Sequences>) -> Vec<Row> {
    let row = |(agent, (_, _, to_ms)): (Uuid, (&Window, i64, i64))| -> Row {
        let sequences = recorded.get(&agent).map(Sequences::to_string).unwrap_or_default();
        vec![agent.to_string().as_str().into(), sequences.as_str().into(), to_ms.into()]
    };
    by_agent(windows).into_iter().map(row).collect()
}
