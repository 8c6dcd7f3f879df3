//! How soon a user sees the first flip in well-known programs, how many follow per second, and how long the
//! repetition of one takes.

use super::super::statistics::Interval;
use super::targets::{Target, Tool};
use super::{SEED, Sizes, TYPES, deviating};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Instant;

/// Of one program.
#[derive(Serialize)]
pub struct ProgramFigures {
    pub instructions: u64,
    /// A campaign of a single flip, with everything before and after it.
    pub first_flip_s: Interval,
    pub flips_per_s: Interval,
    /// Forks without a flip whose output was not golden, and flips that were not made where they were planned.
    pub deviating: u64,
}

pub fn measure(tool: &Tool, sizes: &Sizes) -> Result<BTreeMap<&'static str, ProgramFigures>, String> {
    let mut all = BTreeMap::new();
    for target in Target::known(tool)? {
        let (mut first, mut rates, mut instructions, mut deviations) = (Vec::new(), Vec::new(), 0, 0);
        for round in 0..sizes.rounds {
            let one = ["--types", "CF", "--controls", "0"];
            let (first_s, _) = tool.campaign(&target, 1, SEED + round, &one)?;
            let (small_s, small) = tool.campaign(&target, sizes.few, SEED + round, &[])?;
            let (large_s, large) = tool.campaign(&target, sizes.more, SEED + round, &[])?;
            first.push(first_s);
            rates.push(f64::from(TYPES * (sizes.more - sizes.few)) / (large_s - small_s).max(0.001));
            instructions = large.instructions;
            deviations += deviating(&small) + deviating(&large);
        }
        let known = ProgramFigures {
            instructions,
            first_flip_s: Interval::of(&first),
            flips_per_s: Interval::of(&rates),
            deviating: deviations,
        };
        println!(
            " {:<12} {:>12} instructions, first flip after {:.1} s, {:.0} flips/s",
            target.name, known.instructions, known.first_flip_s.median, known.flips_per_s.median
        );
        all.insert(target.name, known);
    }
    Ok(all)
}

/// Seconds that `flip replay` takes for flips across the golden run.
pub fn replay(tool: &Tool, target: &Target, sizes: &Sizes) -> Result<Interval, String> {
    let result = tool.flip(target, sizes.few, SEED, &[])?;
    let run = result["run"].as_str().ok_or("a campaign has no run")?;
    let mut seconds = Vec::new();
    for nth in 0..sizes.rounds.max(3) as u32 {
        let id = nth * TYPES * sizes.few / sizes.rounds.max(3) as u32;
        let begin = Instant::now();
        let replayed: Value = tool.query(&["flip", "replay", &format!("{run}:{id}")])?;
        seconds.push(begin.elapsed().as_secs_f64());
        if replayed["same"] != true {
            return Err(format!("injection {id} has another outcome when it is repeated: {replayed}"));
        }
    }
    Ok(Interval::of(&seconds))
}
