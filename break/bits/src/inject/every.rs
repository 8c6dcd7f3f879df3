//! Every flip within the work for a reply, by classes.

use super::{Injector, wanted};
use crate::exhaust::{self, Stretch};
use crate::plan::Planned;
use crate::protocol::{Reply, Spent};
use crate::refusal::Refusal;
use model::flip::{BitPolicy, FlipType};
use std::time::Instant;

impl Injector<'_> {
    /// One member of each class of flips within the work for a reply.
    pub fn exhaust(
        mut self,
        reply: usize,
        types: &[FlipType],
        bits: BitPolicy,
        merge: bool,
        skip: &[u32],
        only: &[u32],
    ) -> Result<Spent, Refusal> {
        let begun = Instant::now();
        exhaust::refuse(types)?;
        let positions = self.known.profile.work_for(reply)?;
        let mut started = self.start("census")?;
        while started.golden.position < positions.start {
            let left = positions.start - started.golden.position;
            started.advance(left)?;
        }
        started.golden.single = true;
        let (classes, census) = exhaust::classes(&mut started, &Stretch { positions, types, bits, merge })?;
        started.room.remove();
        self.give_back(started);
        (self.tell)(&Reply::Census(census))?;
        let classes = wanted(classes, skip, only, |class| class.member.id);
        let planned: Vec<Planned> = classes.iter().map(|class| class.member).collect();
        self.weights = classes.into_iter().map(|class| (class.member.id, class.weights)).collect();
        self.by_forks(&planned)?;
        self.finish(begun)
    }
}
