//! The short cuts against what they stand for: blocks against single steps, a fork at the point against a fresh process.

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
    /// Injections whose outcome, ending or first wrong reply is another one in a fresh process.
    pub fork_fresh: u32,
    /// Forks without a flip that did not give the golden output.
    pub deviating: u64,
}

pub fn check(tool: &Tool, target: &Target, count: u32, replays: u32) -> Result<Agreement, String> {
    let block = tool.flip(target, count, SEED, &["--stepper", "block"])?;
    let step = tool.flip(target, count, SEED, &["--stepper", "step"])?;
    let id = |said: &Value| said["run"].as_str().map(str::to_owned).ok_or("a campaign has no run");
    let (block_id, step_id) = (id(&block)?, id(&step)?);
    let compared = tool.ask(&["diff", &block_id, &step_id])?;
    let number = |key: &str| compared[key].as_u64().ok_or(format!("`diff` does not tell {key}: {compared}"));
    let (differences, same) = (number("differences")?, number("same")?);
    let mut fork_fresh = 0;
    for nth in 0..replays {
        // spread over all types, which follow each other
        let injection = nth * (TYPES * count) / replays;
        let replayed = tool.ask(&["flip", "replay", &format!("{block_id}:{injection}")])?;
        fork_fresh += u32::from(replayed["same"] != true);
    }
    let deviating =
        |said: &Value| said["campaign"]["variants"][0]["controls"]["deviating"].as_u64().unwrap_or(u64::MAX);
    Ok(Agreement {
        compared: differences + same,
        step_block: differences,
        replayed: replays,
        fork_fresh,
        deviating: deviating(&block).saturating_add(deviating(&step)),
    })
}
