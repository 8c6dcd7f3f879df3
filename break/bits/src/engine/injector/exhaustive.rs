//! Injects every flip during the work for a reply, one per class.

use super::{Injector, select};
use crate::engine::exhaustive::{self, FlipRange};
use crate::engine::path_difference;
use crate::engine::refusal::Refusal;
use crate::engine_messages::{Reply, Timings};
use crate::plan::PlannedFlip;
use model::flip::{BitPolicy, FlipType};
use std::rc::Rc;
use std::time::Instant;

impl Injector<'_> {
    /// Injects one member of each class of flips during the work for a reply.
    pub fn exhaust(
        mut self,
        reply: usize,
        types: &[FlipType],
        bits: BitPolicy,
        merge: bool,
        skip: &[u32],
        only: &[u32],
    ) -> Result<Timings, Refusal> {
        let begin = Instant::now();
        exhaustive::check_types(types)?;
        let positions = self.profiled.profile.work_for(reply)?;
        let mut run = self.start()?;
        let stream = Rc::clone(&self.profiled.stream);
        let expected = stream.at(&run.golden.code, positions.start).expect("the range is in the profile");
        let ip = run.golden.code.site(expected.site).instruction.ip();
        run.advance_to(&stream, positions.start, &mut || Ok(()))?;
        path_difference::check_at_flip(&run, positions.start, ip)?;
        // classes depend on what is mapped
        run.golden.unmap_cache(run.gadget)?;
        run.golden.single = true;
        let (classes, totals) = exhaustive::classify(&mut run, &FlipRange { positions, types, bits, merge })?;
        run.run_dir.remove();
        self.return_code(run);
        (self.send)(&Reply::Totals(totals))?;
        let classes = select(classes, skip, only, |class| class.member.id);
        let planned: Vec<PlannedFlip> = classes.iter().map(|class| class.member).collect();
        self.weights = classes.into_iter().map(|class| (class.member.id, class.weights)).collect();
        self.inject_in_forks(&planned)?;
        self.finish(begin)
    }
}
