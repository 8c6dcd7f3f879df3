//! What lost windows leave to later ones, which build on it: services that are told only once, listeners that did not change since, and
//! losses that were to be told.

use flows::{Listener, Losses, Service, ServiceKey, Window};
use std::collections::BTreeMap;
use uuid::Uuid;

#[derive(Default)]
pub struct Legacy {
    losses: Losses,
    services: BTreeMap<ServiceKey, Service>,
    listeners: Option<(Uuid, Vec<Listener>)>,
}

impl Legacy {
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

    /// As [`Legacy::add`], but whoever appended the window knows which lost windows it told of.
    pub fn add_untold(&mut self, window: &Window) {
        let windows = self.losses.windows;
        self.add(window);
        self.losses.windows = windows;
    }

    /// The window with what was left to it, if anything was.
    pub fn with(&self, window: &Window) -> Option<Window> {
        if self.services.is_empty() && self.listeners.is_none() && self.losses == Losses::default() {
            return None;
        }
        let mut window = window.clone();
        window.losses.add(&self.losses);
        let untold = self.services.values().filter(|left| window.services.iter().all(|told| told.key != left.key));
        let untold: Vec<Service> = untold.cloned().collect();
        window.services.extend(untold);
        // those of an earlier agent are no longer true
        if let (None, Some((agent, listeners))) = (&window.listeners, &self.listeners)
            && *agent == window.agent
        {
            window.listeners = Some(listeners.clone());
        }
        Some(window)
    }
}
