//! Which port each workload gets on this machine.
//!
//! In a cluster every pod has an address of its own, so all of them may listen on 8080. Here each needs a port of its
//! own: the same number if it is free, else the next free one. The variable or flag that sets the port is changed
//! accordingly.

use super::environment::Variable;
use super::resources::{ClusterService, PortRef, ProbeCheck, Workload};
use super::sources::Source;
use crate::draft::{Command, port_text};
use std::collections::BTreeSet;

/// One workload on its way to a service of the target.
pub struct Plan<'a> {
    pub workload: &'a Workload,
    pub variables: Vec<Variable>,
    pub source: Option<Source>,
    /// The command in its container and where it is stated.
    pub start: Option<(Command, String)>,
    /// A database, a cache, a queue: its name and usual port.
    pub support: Option<(&'static str, u16)>,
    /// Those of Services first.
    pub ports: Vec<Port>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    pub inside: u16,
    /// On this machine; the same until ports are assigned.
    pub local: u16,
    pub from: String,
    pub is_grpc: bool,
    pub is_movable: bool,
}

impl Plan<'_> {
    /// The container's port that a Service's or probe's port is.
    pub fn inside(&self, port: &PortRef) -> Option<u16> {
        match port {
            PortRef::Number(number) => Some(*number),
            PortRef::Name(name) => {
                self.workload.container.ports.iter().find(|(own, _)| own == name).map(|(_, port)| *port)
            }
        }
    }

    pub fn local(&self, inside: u16) -> Option<u16> {
        self.ports.iter().find(|port| port.inside == inside).map(|port| port.local)
    }

    /// Whether its process can be started here.
    pub fn is_started(&self) -> bool {
        self.source.is_some() && self.support.is_none()
    }

    /// Fills in the ports on which the workload listens.
    pub fn find_ports(&mut self, services: &[&ClusterService]) {
        let mut found: Vec<Port> = Vec::new();
        let mut add =
            |inside: u16, from: String, is_grpc: bool| match found.iter_mut().find(|port| port.inside == inside) {
                Some(port) => port.is_grpc |= is_grpc,
                None => found.push(Port { inside, local: inside, from, is_grpc, is_movable: false }),
            };
        for service in services {
            for port in &service.ports {
                let is_grpc = port.name.starts_with("grpc") || port.protocol.contains("grpc");
                if let Some(inside) = self.inside(&port.target) {
                    add(inside, format!("port {} of Service '{}'", port.port, service.name), is_grpc);
                }
            }
        }
        let set = self.variables.iter().find_map(|own| {
            Some((port_text::in_variable(&own.name, &own.value.value)?, format!("variable {}", own.name)))
        });
        let flag =
            self.words().and_then(|words| port_text::in_command(&words)).map(|port| (port, "its command".to_owned()));
        for (inside, from) in set.into_iter().chain(flag) {
            add(inside, from, false);
        }
        let probe = self.workload.container.probe.as_ref();
        let probed = probe.and_then(|probe| match &probe.check {
            ProbeCheck::Http { port, .. } | ProbeCheck::Tcp(port) => Some((self.inside(port)?, false)),
            ProbeCheck::Grpc(port) => Some((self.inside(port)?, true)),
        });
        if let (Some((inside, is_grpc)), Some(probe)) = (probed, probe) {
            add(inside, probe.from.to_owned(), is_grpc);
        }
        if found.is_empty() {
            let mut add = |inside: u16, from: &str, is_grpc: bool| {
                found.push(Port { inside, local: inside, from: from.to_owned(), is_grpc, is_movable: false });
            };
            for (name, port) in &self.workload.container.ports {
                add(*port, "containerPort", name.starts_with("grpc"));
            }
        }
        if found.is_empty() {
            let exposed =
                self.source.as_ref().and_then(Source::dockerfile).and_then(|file| file.exposed.first().copied());
            let usual = self.support.map(|(name, port)| (port, format!("{name}'s port")));
            if let Some((inside, from)) = exposed.map(|port| (port, "EXPOSE".to_owned())).or(usual) {
                found.push(Port { inside, local: inside, from, is_grpc: false, is_movable: false });
            }
        }
        let movable: Vec<bool> = found.iter().map(|port| self.is_movable(port.inside)).collect();
        found.iter_mut().zip(movable).for_each(|(port, is_movable)| port.is_movable = is_movable);
        self.ports = found;
    }

    /// Whether a variable or a flag sets the port.
    fn is_movable(&self, inside: u16) -> bool {
        let of_variable = |own: &Variable| port_text::in_variable(&own.name, &own.value.value) == Some(inside);
        self.variables.iter().any(of_variable)
            || self.words().is_some_and(|words| port_text::in_command(&words) == Some(inside))
    }

    fn words(&self) -> Option<Vec<String>> {
        match &self.start {
            Some((Command::Words(words), _)) => Some(words.clone()),
            _ => None,
        }
    }
}

/// Assigns the ports on this machine, for the plans in the order of `order`. `is_used`: whether something listens
/// there.
pub fn assign(plans: &mut [Plan], order: &[usize], is_used: &dyn Fn(u16) -> bool) {
    let mut taken: BTreeSet<u16> = BTreeSet::new();
    for at in order {
        let plan = &mut plans[*at];
        let is_started = plan.is_started();
        for port in &mut plan.ports {
            // ports below 1024 need privileges
            let first = if port.inside < 1024 { port.inside + 8000 } else { port.inside };
            let free = |candidate: &u16| {
                let is_used = is_started && is_used(*candidate);
                !taken.contains(candidate) && !is_used
            };
            port.local = (first..=u16::MAX).find(free).or_else(|| (1024..first).find(free)).unwrap_or(first);
            taken.insert(port.local);
        }
    }
}
