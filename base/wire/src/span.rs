//! A history as spans, as other tracers model a request: one server span per scope, one client span per call.
//!
//! Every export starts from this list, so a call looks the same in each of them. Source: the format, "OTLP".

use crate::call_id;
use model::trace::{Call, Outcome, Protocol, Scope};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// A scope: the work of a service for one call.
    Server,
    /// A call, as its caller recorded it.
    Client,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attribute {
    Text(String),
    Int(u64),
    True,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    pub service: String,
    pub side: Side,
    pub id: u64,
    pub parent: Option<u64>,
    pub name: String,
    /// µs since the unix epoch, on the service's clock.
    pub start_us: u64,
    pub end_us: u64,
    pub error: bool,
    /// In the format's order.
    pub attributes: Vec<(&'static str, Attribute)>,
}

pub const GRPC_STATUS: &str = "rpc.grpc.status_code";
pub const HTTP_STATUS: &str = "http.response.status_code";
pub const PEER: &str = "peer.service";
pub const FAULT: &str = "faultloom.fault";
pub const FAILED: &str = "faultloom.failed";
pub const GAP: &str = "faultloom.gap";
pub const TRUNCATED: &str = "faultloom.truncated";
pub const FAULTS_OFF: &str = "faultloom.faults_off";
pub const INHERITED: &str = "faultloom.inherited";
pub const CONNECT_US: &str = "faultloom.connect_us";
pub const UNSCOPED_CALLS: &str = "faultloom.unscoped_calls";

/// The spans of the scope that answered `call`, depth first. `has_parent`: whether the request came with a
/// `traceparent`.
pub fn spans(call: u64, scope: &Scope, has_parent: bool) -> Vec<Span> {
    let mut out = Vec::new();
    // a loop, because an imported trace may be thousands of calls deep
    let mut open = vec![Next::Scope { id: call, scope, has_parent, callers_name: "" }];
    while let Some(next) = open.pop() {
        match next {
            Next::Scope { id, scope, has_parent, callers_name } => {
                let server = of_scope(id, scope, has_parent, callers_name);
                let parent = server.id;
                let end_us = scope.start_us.saturating_add(last_us(scope));
                open.extend(scope.calls.iter().rev().map(|call| Next::Call { id, parent, scope, end_us, call }));
                out.push(server);
            }
            Next::Call { id, parent, scope, end_us, call } => {
                let id = u64::from_str_radix(&call.id, 16).unwrap_or_else(|_| call_id::derive(id, call.number.into()));
                out.push(of_call(id, parent, scope, end_us, call));
                if let Some(child) = &call.scope {
                    open.push(Next::Scope { id, scope: child, has_parent: true, callers_name: &call.name });
                }
            }
        }
    }
    out
}

/// What is converted next. `id`: the call that the scope answered; `end_us`: the scope's end.
enum Next<'a> {
    Scope { id: u64, scope: &'a Scope, has_parent: bool, callers_name: &'a str },
    Call { id: u64, parent: u64, scope: &'a Scope, end_us: u64, call: &'a Call },
}

/// µs since the start of the scope.
fn last_us(scope: &Scope) -> u64 {
    scope.calls.iter().map(|c| c.ended_us.unwrap_or(c.sent_us)).chain(scope.answered_us).max().unwrap_or(0)
}

fn of_scope(id: u64, scope: &Scope, has_parent: bool, callers_name: &str) -> Span {
    let name = [&scope.name, callers_name].into_iter().find(|name| !name.is_empty()).unwrap_or(&scope.service);
    let mut attributes = Vec::new();
    if let Some(status) = scope.status {
        attributes.push((if status < 100 { GRPC_STATUS } else { HTTP_STATUS }, Attribute::Int(status.into())));
    }
    attributes.extend(scope.truncated.then_some((TRUNCATED, Attribute::True)));
    attributes.extend(scope.faults_off.then_some((FAULTS_OFF, Attribute::True)));
    let unscoped = scope.unscoped_calls();
    attributes.extend((unscoped > 0).then_some((UNSCOPED_CALLS, Attribute::Int(unscoped))));
    Span {
        service: scope.service.clone(),
        side: Side::Server,
        id: call_id::derive(id, 0),
        parent: has_parent.then_some(id),
        name: name.to_owned(),
        start_us: scope.start_us,
        end_us: scope.start_us.saturating_add(last_us(scope)),
        error: scope.status.is_some_and(|status| if status < 100 { status != 0 } else { status >= 500 }),
        attributes,
    }
}

fn of_call(id: u64, server: u64, scope: &Scope, end_us: u64, call: &Call) -> Span {
    let at = |us: u64| scope.start_us.saturating_add(us);
    Span {
        service: scope.service.clone(),
        side: Side::Client,
        id,
        parent: Some(server),
        name: call.name.clone(),
        start_us: at(call.sent_us),
        end_us: call.ended_us.map_or(end_us, at),
        error: call.outcome != Outcome::Open && !call.is_ok(),
        attributes: attributes_of_call(call),
    }
}

fn attributes_of_call(call: &Call) -> Vec<(&'static str, Attribute)> {
    let status = match (call.outcome, call.protocol) {
        (Outcome::Replied { status }, Protocol::Http) => Some((HTTP_STATUS, status)),
        (Outcome::Replied { status } | Outcome::Failed { status }, _) => Some((GRPC_STATUS, status)),
        (Outcome::Open, _) => None,
    };
    let mut attributes = Vec::new();
    attributes.extend(status.map(|(key, status)| (key, Attribute::Int(status.into()))));
    attributes.push((PEER, Attribute::Text(call.peer.clone())));
    attributes.extend(call.fault.map(|index| (FAULT, Attribute::Int(index as u64))));
    attributes.extend(matches!(call.outcome, Outcome::Failed { .. }).then_some((FAILED, Attribute::True)));
    attributes.extend(call.gap.then_some((GAP, Attribute::True)));
    attributes.extend(call.inherited.then_some((INHERITED, Attribute::True)));
    attributes.extend(call.connect_us.map(|us| (CONNECT_US, Attribute::Int(us))));
    attributes
}
