//! The production observer: a socket collector and the identification of services.

use crate::capabilities;
use crate::daemon::Observer;
use flows::{Observation, Source};
use model::Failure;
use sockets::Collector;
use sockets::backend::{Mode, select};
use sockets::identity::Identifier;

/// Adapts a socket collector and a service identifier to [`Observer`].
pub struct SocketObserver {
    collector: Box<dyn Collector>,
    identifier: Identifier,
    /// Why no better collector was selected, and what this one misses; for the operator.
    pub remarks: Vec<String>,
    collections: u64,
}

impl SocketObserver {
    /// Starts the best collector that `mode` permits.
    ///
    /// # Errors
    /// No collector can be started. If the mode names a single one, the failure lists the capabilities that it
    /// requires.
    pub fn start(mode: Mode) -> Result<SocketObserver, Failure> {
        let selection = select(mode).map_err(|failure| with_capabilities(failure, mode))?;
        tracing::debug!(source = %selection.collector.source(), "collector selected");
        let rejections = selection.rejections.iter().map(|rejection| format!("not {rejection}"));
        let remarks = rejections.chain(selection.limits).collect();
        Ok(SocketObserver { collector: selection.collector, identifier: Identifier::start()?, remarks, collections: 0 })
    }
}

fn with_capabilities(mut failure: Failure, mode: Mode) -> Failure {
    if let Mode::Only(source) = mode {
        let names = capabilities::names(capabilities::needed(source)).join(" and ");
        let why = failure.why.take().unwrap_or_default();
        failure.why = Some(format!("{why}\n{source} requires {names}").trim().to_owned());
    }
    failure
}

impl Observer for SocketObserver {
    fn source(&self) -> Source {
        self.collector.source()
    }

    fn trim_memory(&mut self) {
        sockets::memory::trim();
        // the start and the first window, which has all existing connections, are complete
        if self.collections == 1 {
            sockets::memory::release_code();
        }
    }

    fn prepare_last(&mut self) {
        self.collector.prepare_last();
    }

    fn collect(&mut self) -> Result<Observation, Failure> {
        let collected = self.collector.collect()?;
        self.collections += 1;
        Ok(self.identifier.identify(self.collector.source(), collected))
    }
}
