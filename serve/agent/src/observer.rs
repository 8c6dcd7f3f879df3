//! What the daemon watches with: a collector and what knows services, as one.

use flows::{Seen, Source};
use model::Failure;

pub trait Observer {
    fn source(&self) -> Source;
    /// Blocks for as long as it takes to ask the kernel: some 40 ms at 20,000 connections.
    fn look(&mut self) -> Result<Seen, Failure>;
    /// Gives back memory that a look took: called before what was seen is kept, which takes some itself, and after it.
    fn rest(&mut self) {}
}
