//! Tests of the engine as a process, in one binary so that it is linked once.
//!
//! `fault_oracle` is a separate one: it forks processes without exec. They would inherit the pipes of engines in
//! concurrent tests, whose input would then not end.

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
