//! The flows under which open connections were reported last. There may be tens of thousands, so each takes 48 bytes.

use crate::SocketObservation;
use flows::{Attribution, FlowKey, Link, ListenAddress, ProcessId, ServiceKey, Side};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

/// What identifies one end of equal connections in consecutive collections. The service does not: a process changes it
/// by executing another program.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ends {
    side: Side,
    netns: u64,
    /// With the cgroup if the process is unknown.
    owner: Option<(ProcessId, Option<u64>)>,
    link: Link,
    attribution: Attribution,
    any_worker: bool,
}

impl Ends {
    pub fn of(observed: &SocketObservation) -> Ends {
        let owner = observed.owner.as_deref();
        Ends {
            side: observed.side,
            netns: observed.netns,
            owner: owner.map(|owner| (owner.process, owner.cgroup.filter(|_| owner.process.pid == 0))),
            link: observed.link.clone(),
            attribution: observed.attribution,
            any_worker: observed.any_worker,
        }
    }
}

/// The parts of a flow's key that may change while its connections stay open.
#[derive(PartialEq, Eq)]
struct Reported {
    /// The bytes of the service's key.
    service: u128,
    has_process: bool,
    translated: Option<Box<ListenAddress>>,
}

#[derive(Default)]
pub struct OpenFlows {
    /// By two independent hashes of the ends, which would take several times the memory.
    reported: HashMap<[u64; 2], Reported>,
    hashers: [RandomState; 2],
}

impl OpenFlows {
    /// Stores the flow of these ends, or removes it if no connection is open. Returns the flow under which they were
    /// reported before, if it is another one.
    pub fn replace(&mut self, ends: &Ends, key: &FlowKey, is_open: bool) -> Option<FlowKey> {
        let id = [self.hashers[0].hash_one(ends), self.hashers[1].hash_one(ends)];
        let now = Reported {
            service: u128::from_str_radix(&key.service.0, 16).expect("a service key is 16 bytes in hex"),
            has_process: key.process.is_some(),
            translated: key.translated.clone().map(Box::new),
        };
        let other = self.reported.get(&id).filter(|before| **before != now).map(|before| FlowKey {
            service: ServiceKey(format!("{:032x}", before.service)),
            process: ends.owner.map(|(process, _)| process).filter(|_| before.has_process),
            translated: before.translated.as_deref().cloned(),
            ..key.clone()
        });
        if is_open {
            self.reported.insert(id, now);
        } else {
            self.reported.remove(&id);
        }
        other
    }
}
