//! The run of one variant of a campaign: its spec, its judge, and the log that all results are computed from.

use crate::judge::Judge;
use crate::log::{Golden, Log};
use crate::reference;
use crate::spec::{Spec, VariantSpec};
use crate::tables::Tables;
use bit_flips::engine_messages::{Injected, Profile};
use model::Failure;
use model::campaign::{Controls, Logged, Role, Variant};
use model::flip::{Outcome, Output};
use std::sync::atomic::AtomicBool;

pub struct VariantRun<'a, 'l> {
    pub spec: &'a Spec,
    pub index: u32,
    pub judge: &'a Judge,
    pub log: &'a mut Log<'l>,
    /// Includes what the log already has of this variant.
    pub tables: &'a mut Tables,
    pub stop: &'a AtomicBool,
}

pub enum Completion {
    Complete(Box<Variant>),
    /// `stop` was set. Completed injections are in the log.
    Stopped,
}

/// The progress of a variant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Progress {
    /// The golden run: instructions so far.
    Golden {
        instructions: u64,
        /// Of about this many. 0: unknown.
        of: u64,
    },
    Flips {
        done: u64,
        total: u64,
        undetected: u64,
    },
}

impl VariantRun<'_, '_> {
    pub fn variant(&self) -> &VariantSpec {
        &self.spec.variants[self.index as usize]
    }

    /// Refuses a golden run that differs from that of an earlier session, that failed or wrote nothing, or that a
    /// client would not accept. Keeps the first one.
    pub(crate) fn accept(&self, profile: &Profile) -> Result<(), Failure> {
        let (now, file) = (Golden::of(profile), Golden::file(self.index));
        let first = !self.log.dir().file(&file).exists();
        if !first {
            check_same_golden(&self.log.dir().read_json(&file)?, &now)?;
        } else {
            reference::check(&self.variant().program, &self.spec.rules, profile)?;
        }
        if let Some(reason) = self.judge.invalid_reference(&profile.golden) {
            return Err(Failure::request("the reference output is invalid for this protocol")
                .why(reason)
                .next("choose the --protocol (and --check) that the program uses"));
        }
        if first {
            self.log.dir().write_json(&file, &now)?;
        }
        Ok(())
    }

    /// Adds a record to the log and the tables, and keeps the output if it is undetected. False: it is in the log
    /// already.
    pub(crate) fn record(
        &mut self,
        logged: &Logged,
        golden: &Output,
        output: Option<&Output>,
    ) -> Result<bool, Failure> {
        let new = self.log.append(logged)?;
        if new {
            self.tables.add(logged);
        }
        if let (true, Some(output), Some(Outcome::Undetected)) = (new, output, logged.outcome) {
            self.log.keep(self.index, logged.id, golden, output)?;
        }
        Ok(new)
    }

    /// Summarizes the golden run and the log, with the numbers of `planned` flips or disturbed runs and of `controls`.
    pub(crate) fn summary(&self, profile: &Profile, planned: u64, controls: u64) -> Variant {
        let exits = (profile.exit_status != 0)
            .then(|| format!("it exits with status {} without a flip too, as expected", profile.exit_status));
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
            remarks: exits.into_iter().chain(profile.remarks.clone()).collect(),
            planned,
            missing: controls.saturating_sub(self.tables.controls().run),
            controls: Controls { planned: controls, ..Controls::default() },
            ..Variant::default()
        };
        self.tables.fill(&mut variant);
        variant
    }
}

/// The engine's report of one injection, with its outcome.
pub(crate) fn judged(judge: &Judge, variant: u32, profile: &Profile, injected: &Injected) -> Logged {
    let Injected { output, written, effect, stderr, .. } = injected;
    let judgment = judge.judge(&profile.golden, output.as_ref(), written.as_ref(), effect, stderr);
    Logged {
        variant,
        id: injected.id,
        role: if injected.injection.is_some() { Role::Flip } else { Role::Control },
        injection: injected.injection.clone(),
        effect: injected.effect.clone(),
        outcome: judgment.outcome,
        deviation: judgment.deviation,
        remark: judgment.remark,
        live: None,
    }
}

/// Refuses a golden run that differs from the earlier one: ids and outputs would have other meanings.
pub(crate) fn check_same_golden(before: &Golden, now: &Golden) -> Result<(), Failure> {
    if (&before.sha256, before.instructions) == (&now.sha256, now.instructions) {
        return Ok(());
    }
    let what = if before.sha256 == now.sha256 { "executes other instructions" } else { "writes other output" };
    Err(Failure::unknown(format!("the undisturbed program {what} than when the campaign began"))
        .why(format!(
            "{} instructions then, {} now: a library, a setting or the machine has changed",
            before.instructions, now.instructions
        ))
        .next("undo that change, or begin a new campaign"))
}
