//! Runs to one flip of a campaign and leaves the process there for a debugger.

use super::{Injector, select};
use crate::engine::debugger_handoff::{Handoff, hand_off};
use crate::engine::path_difference;
use crate::engine::refusal::Refusal;
use crate::engine_messages::{Draw, Held, Reply, Timings};
use crate::plan::plan;
use model::Failure;
use std::time::Instant;

impl Injector<'_> {
    /// Runs a fresh process to one flip and leaves it for a debugger, before the flip or `after` it. Returns when the
    /// process has ended.
    pub fn hold(mut self, draw: &Draw, id: u32, after: bool) -> Result<Timings, Refusal> {
        let begin = Instant::now();
        let planned = plan(&self.profiled.stream, &self.profiled.code, draw);
        let found = select(planned, &[], &[id], |planned| planned.id).pop();
        let Some((planned, fault)) = found.and_then(|planned| Some((planned, planned.fault?))) else {
            return Err(Failure::request(format!("there is no flip with number {id}"))
                .why("the draw has fewer flips, or it is a control")
                .next("name one that the campaign has logged")
                .into());
        };
        let mut run = self.start()?;
        self.advance_to(&mut run, &planned)?;
        path_difference::check_at_flip(&run, planned.position, planned.ip)?;
        run.golden.unmap_cache(run.gadget)?;
        let golden = &run.golden;
        let mut stopped = golden.stopped_process()?;
        let instruction = golden.code.instruction_at(planned.ip).expect("it was checked to be next");
        let injection = self.profiled.injection(&golden.code, &planned, &fault);
        let handoff = hand_off(&mut stopped, run.gadget, &instruction, after.then_some(&fault))?;
        let Handoff { hit, signal, ip } = handoff;
        let (pid, thread) = (stopped.process, stopped.thread.pid);
        (self.send)(&Reply::Held(Box::new(Held { pid, thread, ip, injection, hit, signal })))?;
        while !sandbox::tracee::wait(pid)?.ended() {}
        run.run_dir.remove();
        self.return_code(run);
        self.finish(begin)
    }
}
