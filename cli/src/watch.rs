//! A collector and what knows services, as what the agent's daemon looks with.

use agent::{Observer, rights};
use flows::{Seen, Source};
use model::Failure;
use sockets::Collector;
use sockets::choose::{Mode, choose};
use sockets::identity::Identifier;

pub struct Watch {
    collector: Box<dyn Collector>,
    identifier: Identifier,
    /// Why nothing better was taken, and what is not seen this way.
    pub remarks: Vec<String>,
}

impl Watch {
    pub fn start(mode: Mode) -> Result<Watch, Failure> {
        let choice = choose(mode).map_err(|failure| with_rights(failure, mode))?;
        let refusals = choice.refusals.iter().map(|refusal| format!("not {refusal}"));
        let remarks = refusals.chain(choice.limits).collect();
        Ok(Watch { collector: choice.collector, identifier: Identifier::start()?, remarks })
    }
}

/// Whoever demanded a way must read what it takes.
fn with_rights(mut failure: Failure, mode: Mode) -> Failure {
    if let Mode::Only(source) = mode {
        let names = rights::names(rights::needed(source)).join(" and ");
        let told = failure.why.take().unwrap_or_default();
        failure.why = Some(format!("{told}\n{source} takes {names}").trim().to_owned());
    }
    failure
}

impl Observer for Watch {
    fn source(&self) -> Source {
        self.collector.source()
    }

    fn rest(&mut self) {
        sockets::memory::give_back();
    }

    fn look(&mut self) -> Result<Seen, Failure> {
        let sightings = self.collector.collect()?;
        Ok(self.identifier.identify(self.collector.source(), sightings))
    }
}
