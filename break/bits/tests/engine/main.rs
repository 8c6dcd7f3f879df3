//! Tests of the engine as a process, in one binary so that it is linked once.
//!
//! `fault_oracle` is another one: it forks processes without exec. They would inherit the pipes of engines that other
//! tests run at the same time, which would then not see the end of their input.

mod campaign;
mod exhaust;
mod hold;
mod inspect;
mod instruction;
mod live;
mod modules;
mod refusals;
mod replayed;
mod sites;
mod support;
mod threads;
