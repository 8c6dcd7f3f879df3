//! One flip of a campaign, left for a debugger.

use super::{Injector, wanted};
use crate::hold::{Left, leave};
use crate::plan::plan;
use crate::protocol::{Draw, Held, Reply, Spent};
use crate::refusal::Refusal;
use model::Failure;
use std::io;
use std::time::Instant;

impl Injector<'_> {
    /// One flip in a fresh process, which is left for a debugger before it or `after` it. Returns when the process has ended.
    pub fn hold(mut self, draw: &Draw, id: u32, after: bool) -> Result<Spent, Refusal> {
        let begun = Instant::now();
        let found = wanted(plan(&self.known.stream, &self.known.code, draw), &[], &[id], |planned| planned.id).pop();
        let Some((planned, blow)) = found.and_then(|planned| Some((planned, planned.blow?))) else {
            return Err(Failure::request(format!("nothing is flipped under the number {id}"))
                .why("the draw has fewer flips, or it is a control")
                .next("name one that the campaign has logged")
                .into());
        };
        let mut started = self.start("held")?;
        self.go_to(&mut started, &planned)?;
        let golden = &started.golden;
        if golden.position != planned.position || golden.ip() != planned.ip {
            return Err(io::Error::other("the program did not come to the flip's place again").into());
        }
        let whole = golden.whole()?;
        let instruction = golden.code.instruction_at(planned.ip).expect("it was checked to be next");
        let injection = self.known.injection(&golden.code, &planned, &blow);
        let left = leave(&whole, started.gadget, &instruction, after.then_some(&blow))?;
        let Left { hit, signal, ip } = left;
        let (pid, thread) = (whole.process, whole.struck.pid);
        (self.tell)(&Reply::Held(Box::new(Held { pid, thread, ip, injection, hit, signal })))?;
        while !crate::tracee::wait(pid)?.ended() {}
        started.room.remove();
        self.give_back(started);
        self.finish(begun)
    }
}
