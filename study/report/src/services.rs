//! The services of a page: each has one name, one position and one color in all drawings.
//!
//! A call that did not reach its callee has only the caller's name for its peer (`currency:7000`), while others have
//! the callee's own name. The peer is equal in both, so the callee's name is looked up by it.

use model::trace::{Call, Trace};
use std::collections::{HashMap, HashSet};

/// The number of colors in `page.css`, which are used in turn.
const COLORS: usize = 8;

pub(crate) struct Services {
    order: HashMap<String, usize>,
    names: HashMap<String, String>,
    recorded: HashSet<String>,
}

impl Services {
    pub(crate) fn of<'a>(traces: impl Iterator<Item = &'a Trace> + Clone) -> Services {
        let mut services = Services { order: HashMap::new(), names: HashMap::new(), recorded: HashSet::new() };
        let calls = || traces.clone().flat_map(|t| std::iter::once(&t.entry).chain(t.walk()));
        for call in calls().filter(|c| c.scope.is_some()) {
            services.recorded.insert(call.callee.clone());
            if !call.peer.is_empty() {
                services.names.entry(call.peer.clone()).or_insert_with(|| call.callee.clone());
            }
        }
        for call in calls() {
            let next = services.order.len();
            let name = services.name(call).to_owned();
            services.order.entry(name).or_insert(next);
        }
        services
    }

    /// The callee's name, even if this call did not reach it.
    pub(crate) fn name<'a>(&'a self, call: &'a Call) -> &'a str {
        match &call.scope {
            Some(_) => &call.callee,
            None => self.names.get(&call.peer).unwrap_or(&call.callee),
        }
    }

    pub(crate) fn color(&self, name: &str) -> usize {
        self.order.get(name).map_or(0, |n| n % COLORS)
    }

    pub(crate) fn takes_part(&self, name: &str) -> bool {
        self.order.contains_key(name)
    }

    /// Whether the service returned a history, so it has an SDK.
    pub(crate) fn is_recorded(&self, name: &str) -> bool {
        self.recorded.contains(name)
    }
}
