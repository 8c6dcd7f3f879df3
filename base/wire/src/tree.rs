//! Builds the tree of calls from a history's segments.

use crate::bytes::hex;
use crate::call_id;
use crate::history::{CallEnded, EventKind, History, Segment, UnscopedCalls};
use model::trace::{Call, Outcome, Protocol, Scope, Trace};
use std::collections::HashMap;

/// The entry call, as recorded by the program that sent it.
pub struct EntryCall {
    pub trace_id: [u8; 16],
    pub call: u64,
    pub name: String,
    pub peer: String,
    pub protocol: Protocol,
    pub duration_us: u64,
    pub outcome: Outcome,
}

/// The caller of the entry call.
pub const ENTRY_CALLER: &str = "faultloom";

/// Joins the entry call with the history that its reply carried, if any.
pub fn trace(entry: EntryCall, history: Option<History>) -> Trace {
    let history = history.filter(|h| h.call == entry.call);
    let scope = history.map(|h| Box::new(self::scope(h.segment, entry.call)));
    let mut trace = Trace {
        trace_id: hex(&entry.trace_id),
        entry: Call {
            id: format!("{:016x}", entry.call),
            number: 0,
            caller: ENTRY_CALLER.to_owned(),
            callee: scope.as_ref().map_or_else(|| entry.peer.clone(), |s| s.service.clone()),
            name: entry.name,
            peer: entry.peer,
            protocol: entry.protocol,
            sent_us: 0,
            ended_us: Some(entry.duration_us),
            outcome: entry.outcome,
            fault: None,
            inherited: false,
            connect_us: None,
            gap: scope.is_none(),
            unreadable: None,
            scope,
        },
    };
    name_callees(&mut trace.entry);
    trace
}

/// Names the callees of calls that did not reach them: they have the name of the callee that answered another call to
/// the same peer.
pub fn name_callees(entry: &mut Call) {
    let mut names: HashMap<String, String> = HashMap::new();
    let mut open = vec![&*entry];
    while let Some(call) = open.pop() {
        if let Some(scope) = &call.scope {
            names.insert(call.peer.clone(), scope.service.clone());
        }
        // so that of several names for a peer the last call's is used
        open.extend(call.calls().iter().rev());
    }
    let mut open = vec![entry];
    while let Some(call) = open.pop() {
        if let (None, Some(name)) = (&call.scope, names.get(&call.peer)) {
            call.callee.clone_from(name);
        }
        if let Some(scope) = &mut call.scope {
            open.extend(scope.calls.iter_mut());
        }
    }
}

/// A segment as the scope of the call with this id.
pub fn scope(segment: Segment, id: u64) -> Scope {
    let mut out = Scope {
        service: segment.service,
        name: segment.name,
        start_us: segment.start_us,
        answered_us: None,
        status: None,
        truncated: segment.truncated,
        faults_off: segment.faults_off,
        unscoped: Vec::new(),
        calls: Vec::new(),
    };
    for event in segment.events {
        match event.kind {
            EventKind::SendRequest { name, peer, http, fault, inherited } => {
                let number = out.calls.len() as u32 + 1;
                out.calls.push(Call {
                    id: format!("{:016x}", call_id::derive(id, u64::from(number))),
                    number,
                    caller: out.service.clone(),
                    callee: peer.clone(),
                    name,
                    peer,
                    protocol: protocol(http),
                    sent_us: event.at_us,
                    ended_us: None,
                    outcome: Outcome::Open,
                    fault: fault.map(|i| i as usize),
                    inherited,
                    connect_us: None,
                    gap: false,
                    unreadable: None,
                    scope: None,
                });
            }
            EventKind::RecvResponse(ended) => {
                let status = ended.status as u32;
                end(&mut out.calls, id, ended, event.at_us, Outcome::Replied { status });
            }
            EventKind::CallFailed(ended) => {
                let status = ended.status as u32;
                end(&mut out.calls, id, ended, event.at_us, Outcome::Failed { status });
            }
            EventKind::SendResponse { status } => {
                out.answered_us = Some(event.at_us);
                out.status = Some(status as u32);
            }
            EventKind::UnscopedCalls(UnscopedCalls { name, peer, http, count, site }) => {
                out.unscoped.push(model::trace::UnscopedCalls { name, peer, protocol: protocol(http), count, site });
            }
        }
    }
    // without a recorded end the callee may have done anything
    for call in &mut out.calls {
        call.gap |= call.outcome == Outcome::Open;
    }
    out
}

fn protocol(http: bool) -> Protocol {
    if http { Protocol::Http } else { Protocol::Grpc }
}

fn end(calls: &mut [Call], scope_id: u64, ended: CallEnded, at_us: u64, outcome: Outcome) {
    let call = &mut calls[ended.call as usize - 1];
    call.ended_us = Some(at_us);
    call.outcome = outcome;
    call.connect_us = Some(ended.connect_us).filter(|us| *us > 0);
    call.gap = ended.gap;
    call.unreadable = ended.unreadable.map(|why| why.to_string());
    if let Some(child) = ended.child {
        call.callee.clone_from(&child.service);
        call.scope = Some(Box::new(scope(*child, call_id::derive(scope_id, ended.call))));
    }
}
