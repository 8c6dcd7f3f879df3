//! What reports show of an instruction: its text, its class and its location. Computed once per instruction.

use crate::inject::Fault;
use crate::plan::PlannedFlip;
use crate::program::modules::{CodeLocation, Modules};
use crate::tracing::code::Code;
use model::flip::Injection;
use std::collections::HashMap;

/// By address.
#[derive(Default)]
pub struct SiteInfoCache(HashMap<u64, SiteInfo>);

struct SiteInfo {
    instruction: String,
    class: &'static str,
    location: CodeLocation,
}

impl SiteInfoCache {
    /// The injection record of a planned flip. Its instruction must be decoded in `code`.
    pub fn injection(&mut self, planned: &PlannedFlip, fault: &Fault, code: &Code, modules: &mut Modules) -> Injection {
        let SiteInfo { instruction, class, location } = self.get(planned.ip, code, modules);
        Injection {
            id: planned.id,
            kind: fault.kind,
            position: planned.position,
            iteration: fault.iteration,
            operand: fault.operand as u8,
            bit: fault.bit as u16,
            seed: fault.seed,
            ip: planned.ip,
            instruction: instruction.clone(),
            class: (*class).to_owned(),
            module: location.module.clone(),
            offset: location.offset,
            symbol: location.symbol.clone(),
            source: location.source.clone(),
        }
    }

    fn get(&mut self, ip: u64, code: &Code, modules: &mut Modules) -> &SiteInfo {
        self.0.entry(ip).or_insert_with(|| {
            let instruction = code.instruction_at(ip);
            SiteInfo {
                instruction: instruction.as_ref().map(|i| i.text()).unwrap_or_default(),
                class: instruction.as_ref().map_or("other", |i| i.class()),
                location: modules.locate(ip),
            }
        })
    }
}
