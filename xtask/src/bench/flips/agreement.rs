//! Compares optimizations with their oracles: blocks with single steps, a fork at the point with a fresh process.

use super::targets::{Target, Tool};
use super::{SEED, TYPES};
use serde::Serialize;
use serde_json::Value;

#[derive(Serialize)]
pub struct Agreement {
    pub compared: u64,
    /// Outcomes that differ between the two steppers for the same draw.
    pub step_block: u64,
    pub replayed: u32,
    /// Injections whose outcome, ending or first wrong reply differs in a fresh process.
    pub fork_fresh: u32,
    /// Forks without a flip whose output was not golden.
    pub deviating: u64,
}

pub fn check(tool: &Tool, target: &Target, count: u32, replays: u32) -> Result<Agreement, String> {
    let block = tool.flip(target, count, SEED, &["--stepper", "block"])?;
    let step = tool.flip(target, count, SEED, &["--stepper", "step"])?;
    let id = |result: &Value| result["run"].as_str().map(str::to_owned).ok_or("a campaign has no run");
    let (block_id, step_id) = (id(&block)?, id(&step)?);
    let compared = tool.query(&["diff", &block_id, &step_id])?;
    let number = |key: &str| compared[key].as_u64().ok_or(format!("`diff` does not report {key}: {compared}"));
    let (differences, same) = (number("differences")?, number("same")?);
    let mut fork_fresh = 0;
    for nth in 0..replays {
        // spread over all types, which are consecutive
        let injection = nth * (TYPES * count) / replays;
        let replayed = tool.query(&["flip", "replay", &format!("{block_id}:{injection}")])?;
        fork_fresh += u32::from(replayed["same"] != true);
    }
    let deviating =
        |result: &Value| result["campaign"]["variants"][0]["controls"]["deviating"].as_u64().unwrap_or(u64::MAX);
    Ok(Agreement {
        compared: differences + same,
        step_block: differences,
        replayed: replays,
        fork_fresh,
        deviating: deviating(&block).saturating_add(deviating(&step)),
    })
}
