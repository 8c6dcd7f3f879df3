//! Where a map comes from: this host's store, the fleet's, the agents of other hosts, or one look.

use crate::args::Origin;
use crate::commands::agent::state_folder;
use crate::context::Context;
use agent::shelf::DATABASE;
use fleet::AllowList;
use flowdb::FlowDb;
use flows::Slice;
use model::Failure;
use std::path::Path;

/// A slice, and what its reader must know about how it came.
pub struct Known {
    pub slice: Slice,
    pub remarks: Vec<String>,
}

pub async fn known(context: &Context, origin: &Origin, from_ms: i64, to_ms: i64) -> Result<Known, Failure> {
    if origin.now {
        let (slice, remarks) = app::snapshot::look()?;
        return Ok(Known { slice, remarks });
    }
    if let Some(url) = &origin.database {
        let slice = read(url, from_ms, to_ms).await?;
        return Ok(Known { slice, remarks: Vec::new() });
    }
    if let Some(file) = &origin.hosts {
        return asked(file, from_ms, to_ms).await;
    }
    let state = state_folder(context, origin.state.as_deref());
    let file = state.join(DATABASE);
    if !file.exists() {
        return Err(no_agent(context, &state));
    }
    let slice = read(&file.to_string_lossy(), from_ms, to_ms).await?;
    Ok(Known { slice, remarks: Vec::new() })
}

/// From the agents of the list. None of them answering is a failure; some is a map with remarks.
async fn asked(file: &Path, from_ms: i64, to_ms: i64) -> Result<Known, Failure> {
    let list = AllowList::load(file)?;
    let answers = fleet::ask_all(&list, from_ms, to_ms).await;
    if answers.answered == 0 {
        return Err(Failure::environment(format!(
            "none of the {} hosts in {} answers",
            list.hosts.len(),
            file.display()
        ))
        .why(answers.remarks.join("\n"))
        .next("on each of them `faultloom agent serve` must run"));
    }
    Ok(Known { slice: answers.slice, remarks: answers.remarks })
}

async fn read(place: &str, from_ms: i64, to_ms: i64) -> Result<Slice, Failure> {
    let flowdb = FlowDb::read(place).await?;
    let slice = flowdb.slice(from_ms, to_ms).await?;
    if slice.hosts.is_empty() {
        let hosts = flowdb.hosts().await?;
        let last = hosts.iter().max_by_key(|host| host.last_ms);
        let why = last.map_or("it has no windows at all".to_owned(), |host| {
            format!("{} was last heard at {}", host.name, app::text::time(host.last_ms))
        });
        flowdb.close().await;
        return Err(Failure::unknown("nothing is known of that time")
            .why(why)
            .next("ask for another time (--last 1d), or see whether the agent runs"));
    }
    flowdb.close().await;
    Ok(slice)
}

fn no_agent(context: &Context, state: &Path) -> Failure {
    Failure::environment("no agent has watched this host yet")
        .why(format!("there is no {}", state.join(DATABASE).display()))
        .next(format!(
            "start one: {} (a systemd unit: {} unit); or look once: {} --now",
            context.command("agent"),
            context.command("agent"),
            context.command("map")
        ))
}
