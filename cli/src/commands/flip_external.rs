//! `faultloom flip --external`: runs are judged while a disturbance of the user's own acts.

use crate::context::Context;
use crate::render::flip as draw;
use crate::render::numbers::plural;
use crate::render::progress::{Line, Meter};
use campaign::external::Course;
use campaign::{Ended, External, Judge, Log, Spec, Tables};
use model::Failure;
use model::campaign::Variant;
use std::sync::atomic::AtomicBool;
use store::RunDir;

/// None: somebody wanted it to stop.
pub fn variants(
    context: &Context,
    spec: &Spec,
    external: &External,
    dir: &RunDir,
    stop: &AtomicBool,
) -> Result<Option<Vec<Variant>>, Failure> {
    let judge = Judge::new(&spec.rules)?;
    let mut tables: Vec<Tables> = spec.variants.iter().map(|_| Tables::default()).collect();
    let mut log = Log::open(dir, |logged| {
        if let Some(tables) = tables.get_mut(logged.variant as usize) {
            tables.add(logged);
        }
    })?;
    let mut variants = Vec::new();
    for (index, tables) in tables.iter_mut().enumerate() {
        let name = spec.variants[index].name.clone();
        let mut course = Course { spec, external, index: index as u32, judge: &judge, log: &mut log, tables, stop };
        let mut meter = Meter::new(context.common.quiet || context.common.json);
        let ended = course.run(|done, undetected| {
            meter.update(Line::counts(&name, done, external.runs.into(), format!("{undetected} undetected")));
        });
        meter.clear();
        match ended? {
            Ended::Stopped => return Ok(None),
            Ended::Whole(variant) => {
                context.say(format!(" ✓ {} · {}", draw::sentence(&variant), plural(variant.tally.tried(), "run")));
                variants.push(*variant);
            }
        }
    }
    Ok(Some(variants))
}
