//! Repeats one injection of a campaign in a fresh process, to its end or up to the flip for a debugger.

use crate::engine_client::{EngineClient, unexpected};
use crate::judge::Judge;
use crate::log::{Golden, INJECTIONS};
use crate::run::profile_program;
use crate::spec::Spec;
use crate::variant_run::{check_same_golden, judged};
use bit_flips::engine_messages::{Held, Method, Profile, Reply, Request};
use model::Failure;
use model::campaign::{Logged, Role};
use runs::RunDir;
use std::sync::atomic::AtomicBool;

/// An injection of a campaign.
pub struct Repeat<'a> {
    pub spec: &'a Spec,
    /// The campaign's folder.
    pub dir: &'a RunDir,
    /// Index into [`Spec::variants`].
    pub variant: u32,
    pub id: u32,
}

/// A process that is stopped at a flip, with its ids on the host.
pub struct HeldProcess {
    pub held: Held,
    pub pid: i32,
    /// The thread that is hit, if it is not the first one.
    pub thread: Option<i32>,
}

impl Repeat<'_> {
    /// The injection as the campaign logged it. Fails if there is none, or if it is a control.
    pub fn logged(&self) -> Result<Logged, Failure> {
        let id = self.id;
        let mut found = None;
        self.dir.each_record(INJECTIONS, |logged: Logged| {
            if (logged.variant, logged.id) == (self.variant, id) {
                found = Some(logged);
            }
        })?;
        match found {
            Some(logged) if logged.role == Role::Flip => Ok(logged),
            Some(_) => Err(Failure::request(format!("{id} is a control, where nothing is flipped"))),
            None => Err(Failure::request(format!("the campaign has no injection {id}"))),
        }
    }

    /// Injects it in a fresh process and judges the output. Blocks until the process has ended. None: `stop` was set.
    pub fn run(&self, engine: &mut EngineClient, stop: &AtomicBool) -> Result<Option<Logged>, Failure> {
        let judge = Judge::new(&self.spec.rules)?;
        let Some(profile) = self.profile(engine, stop)? else { return Ok(None) };
        let request = Request::Inject {
            draw: self.spec.draw.clone(),
            method: Method::Fresh,
            skip: Vec::new(),
            only: vec![self.id],
        };
        let mut again = None;
        let done = engine.exchange(&request, stop, |reply| match reply {
            Reply::Injected(injected) if injected.id == self.id => {
                again = Some(judged(&judge, self.variant, &profile, &injected));
                Ok(None)
            }
            Reply::Done(_) => Ok(Some(())),
            Reply::Progress { .. } => Ok(None),
            other => Err(unexpected(&other)),
        })?;
        if done.is_none() {
            return Ok(None);
        }
        again.map(Some).ok_or_else(|| Failure::unknown(format!("injection {} could not be repeated", self.id)))
    }

    /// Runs a fresh process to the flip and stops it there for a debugger, `after` the flip or before it. None: `stop`
    /// was set. The process ends with the engine.
    pub fn hold(
        &self,
        engine: &mut EngineClient,
        after: bool,
        stop: &AtomicBool,
    ) -> Result<Option<HeldProcess>, Failure> {
        if self.profile(engine, stop)?.is_none() {
            return Ok(None);
        }
        let request = Request::Hold { draw: self.spec.draw.clone(), id: self.id, after };
        let held = engine.exchange(&request, stop, |reply| match reply {
            Reply::Held(held) => Ok(Some(*held)),
            Reply::Progress { .. } => Ok(None),
            other => Err(unexpected(&other)),
        })?;
        held.map(|held| {
            let reaper = engine.reaper().unwrap_or_default();
            let pid = sandbox::host_pid(reaper, held.pid)
                .map_err(|e| Failure::environment(format!("the stopped process is not found: {e}")))?
                .ok_or_else(|| Failure::environment("the stopped process has ended"))?;
            let thread = sandbox::host_thread(pid, held.thread).ok().flatten();
            let thread = thread.filter(|_| held.thread != held.pid);
            Ok(HeldProcess { held, pid, thread })
        })
        .transpose()
    }

    /// Profiles the variant's program and checks that it runs as it did in the campaign. None: `stop` was set.
    fn profile(&self, engine: &mut EngineClient, stop: &AtomicBool) -> Result<Option<Profile>, Failure> {
        let variant = &self.spec.variants[self.variant as usize];
        variant.check_unchanged()?;
        let profile = profile_program(engine, &variant.program, stop, &mut |_| {})?;
        if let Some(profile) = &profile {
            check_same_golden(&self.dir.read_json(&Golden::file(self.variant))?, &Golden::of(profile))?;
        }
        Ok(profile)
    }
}

/// Blocks until a held process has ended or `stop` is set.
pub fn wait_for_end(engine: &mut EngineClient, stop: &AtomicBool) -> Result<(), Failure> {
    let done = |reply| Ok(matches!(reply, Reply::Done(_)).then_some(()));
    engine.receive(stop, done).map(drop)
}
