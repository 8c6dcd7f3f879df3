//! Data of dropped windows that later windows depend on: services that are described only once, listeners that did not
//! change since, and losses.

use flows::{Listener, Losses, Service, ServiceKey, Window};
use std::collections::BTreeMap;
use uuid::Uuid;

#[derive(Default)]
pub struct Carryover {
    losses: Losses,
    services: BTreeMap<ServiceKey, Service>,
    listeners: Option<(Uuid, Vec<Listener>)>,
}

impl Carryover {
    pub fn add(&mut self, window: &Window) {
        self.add_losses(&window.losses);
        self.services.extend(window.services.iter().map(|service| (service.key.clone(), service.clone())));
        if let Some(listeners) = &window.listeners {
            self.listeners = Some((window.agent, listeners.clone()));
        }
    }

    pub fn add_losses(&mut self, losses: &Losses) {
        self.losses.add(losses);
    }

    /// Like [`Carryover::add`], but without the number of lost windows, which the caller counts.
    pub fn add_without_lost_windows(&mut self, window: &Window) {
        let windows = self.losses.windows;
        self.add(window);
        self.losses.windows = windows;
    }

    /// The window extended by the carried data; none if there is no carried data.
    pub fn extend(&self, window: &Window) -> Option<Window> {
        if self.services.is_empty() && self.listeners.is_none() && self.losses == Losses::default() {
            return None;
        }
        let mut window = window.clone();
        window.losses.add(&self.losses);
        let missing =
            self.services.values().filter(|carried| window.services.iter().all(|service| service.key != carried.key));
        let missing: Vec<Service> = missing.cloned().collect();
        window.services.extend(missing);
        // listeners of an earlier agent are outdated
        if let (None, Some((agent, listeners))) = (&window.listeners, &self.listeners)
            && *agent == window.agent
        {
            window.listeners = Some(listeners.clone());
        }
        Some(window)
    }
}
