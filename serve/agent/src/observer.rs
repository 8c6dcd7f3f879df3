//! What the daemon watches with: a collector and what knows services, as one.

use flows::{Flow, Host, Listener, Losses, Process, Service, Source};
use model::Failure;

/// What happened since the last look, with services: a [`flows::Window`] without its place in time.
#[derive(Clone, Debug)]
pub struct Seen {
    pub host: Host,
    pub services: Vec<Service>,
    pub processes: Vec<Process>,
    pub listeners: Option<Vec<Listener>>,
    pub flows: Vec<Flow>,
    pub losses: Losses,
}

pub trait Observer {
    fn source(&self) -> Source;
    /// Blocks for as long as it takes to ask the kernel: some 40 ms at 20,000 connections.
    fn look(&mut self) -> Result<Seen, Failure>;
    /// Gives back memory that a look took: called before what was seen is kept, which takes some itself, and after it.
    fn rest(&mut self) {}
}
