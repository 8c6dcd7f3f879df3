//! A variant of a campaign on its way: what it was asked, its judge, and the log from which everything that is shown follows.

use crate::judge::Judge;
use crate::log::{Golden, Log};
use crate::spec::{Spec, VariantSpec};
use crate::tables::Tables;
use bit_flips::protocol::{Output, Profile};
use model::Failure;
use model::campaign::{Controls, Logged, Variant};
use model::flip::Outcome;
use std::sync::atomic::AtomicBool;

pub struct Course<'a, 'l> {
    pub spec: &'a Spec,
    pub index: u32,
    pub judge: &'a Judge,
    pub log: &'a mut Log<'l>,
    /// With what the log already has of this variant.
    pub tables: &'a mut Tables,
    pub stop: &'a AtomicBool,
}

pub enum Ended {
    Whole(Box<Variant>),
    /// Somebody wanted it to stop. What was run is in the log.
    Stopped,
}

impl Course<'_, '_> {
    pub fn variant(&self) -> &VariantSpec {
        &self.spec.variants[self.index as usize]
    }

    /// Refuses a golden run that is not the one of an earlier session, and one that a client would not accept. Keeps the first.
    pub(crate) fn accept(&self, profile: &Profile) -> Result<(), Failure> {
        let (now, file) = (Golden::of(profile), Golden::file(self.index));
        let first = !self.log.dir().file(&file).exists();
        if !first {
            same_golden(&self.log.dir().read_json(&file)?, &now)?;
        }
        if let Some(objection) = self.judge.objection(&profile.golden) {
            return Err(Failure::request("the golden output is none that its client accepts")
                .why(objection)
                .next("choose the --protocol (and --check) that the program speaks"));
        }
        if first {
            self.log.dir().write_json(&file, &now)?;
        }
        Ok(())
    }

    /// Into the log and the tables, with what it sent if nobody would have noticed. False: it is there already.
    pub(crate) fn take(&mut self, logged: &Logged, golden: &Output, seen: Option<&Output>) -> Result<bool, Failure> {
        let new = self.log.append(logged)?;
        if new {
            self.tables.add(logged);
        }
        if let (true, Some(seen), Some(Outcome::Undetected)) = (new, seen, logged.outcome) {
            self.log.keep(self.index, logged.id, golden, seen)?;
        }
        Ok(new)
    }

    /// The variant as its golden run and the log tell it. `planned` flips or disturbed runs, and so many `controls`.
    pub(crate) fn told(&self, profile: &Profile, planned: u64, controls: u64) -> Variant {
        let mut variant = Variant {
            name: self.variant().name.clone(),
            command: self.variant().program.argv.clone(),
            instructions: profile.instructions,
            sites: profile.sites,
            eligible: profile.eligible.clone(),
            connections: profile.golden.streams.len() as u64,
            replies: self.judge.messages(&profile.golden),
            golden_bytes: profile.golden.streams.iter().map(|s| s.bytes.len() as u64).sum(),
            golden_cpu_us: profile.cpu_us,
            remarks: profile.remarks.clone(),
            planned,
            missing: controls.saturating_sub(self.tables.controls().run),
            controls: Controls { planned: controls, ..Controls::default() },
            ..Variant::default()
        };
        self.tables.fill(&mut variant);
        variant
    }
}

/// Refuses a golden run that is not the one of before: ids would stand for other injections, outputs for other outcomes.
pub fn same_golden(before: &Golden, now: &Golden) -> Result<(), Failure> {
    if (&before.sha256, before.instructions) == (&now.sha256, now.instructions) {
        return Ok(());
    }
    let what = if before.sha256 == now.sha256 { "runs other instructions" } else { "sends other output" };
    Err(Failure::unknown(format!("undisturbed, the program {what} than when the campaign began"))
        .why(format!(
            "{} instructions then, {} now: a library, a setting or the machine changed",
            before.instructions, now.instructions
        ))
        .next("bring that back, or begin a new campaign"))
}
