//! What reports say of an instruction: its text, its kind, and where it stands. Worked out once for each.

use crate::code::Code;
use crate::modules::{Modules, Place};
use crate::plan::Planned;
use crate::profile::Known;
use crate::strike::Blow;
use model::flip::Injection;
use std::collections::HashMap;

/// By address.
#[derive(Default)]
pub struct Sayings(HashMap<u64, Said>);

struct Said {
    instruction: String,
    class: &'static str,
    place: Place,
}

impl Sayings {
    fn of(&mut self, ip: u64, code: &Code, modules: &mut Modules) -> &Said {
        self.0.entry(ip).or_insert_with(|| {
            let instruction = code.instruction_at(ip);
            Said {
                instruction: instruction.as_ref().map(|i| i.text()).unwrap_or_default(),
                class: instruction.as_ref().map_or("other", |i| i.class()),
                place: modules.place(ip),
            }
        })
    }
}

impl Known {
    /// A planned flip with all that is said of it. Its instruction is decoded in `code`.
    pub fn injection(&mut self, code: &Code, planned: &Planned, blow: &Blow) -> Injection {
        let Known { said, filter, .. } = self;
        let Said { instruction, class, place } = said.of(planned.ip, code, &mut filter.modules.borrow_mut());
        Injection {
            id: planned.id,
            kind: blow.kind,
            position: planned.position,
            iteration: blow.iteration,
            operand: blow.operand as u8,
            bit: blow.bit as u16,
            seed: blow.seed,
            ip: planned.ip,
            instruction: instruction.clone(),
            class: (*class).to_owned(),
            module: place.module.clone(),
            offset: place.offset,
            symbol: place.symbol.clone(),
            source: place.source.clone(),
        }
    }
}
