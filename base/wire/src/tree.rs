//! From a history's segments to the tree of calls that people and checkers look at.

use crate::bytes::hex;
use crate::call_id;
use crate::history::{Ended, History, Segment, What};
use model::trace::{Call, Outcome, Protocol, Scope, Trace};
use std::collections::HashMap;

/// What the starter of a request knows about its own call.
pub struct EntryCall {
    pub trace_id: [u8; 16],
    pub call: u64,
    pub name: String,
    pub peer: String,
    pub protocol: Protocol,
    pub duration_us: u64,
    pub outcome: Outcome,
}

/// The caller's name for whoever started the request.
pub const STARTER: &str = "faultloom";

/// Joins the starter's side with the history that came back, if one did.
pub fn trace(entry: EntryCall, history: Option<History>) -> Trace {
    let history = history.filter(|h| h.call == entry.call);
    let scope = history.map(|h| Box::new(self::scope(h.segment, entry.call)));
    let mut trace = Trace {
        trace_id: hex(&entry.trace_id),
        entry: Call {
            id: format!("{:016x}", entry.call),
            number: 0,
            caller: STARTER.to_owned(),
            callee: scope.as_ref().map_or_else(|| entry.peer.clone(), |s| s.service.clone()),
            name: entry.name,
            peer: entry.peer,
            protocol: entry.protocol,
            sent_us: 0,
            ended_us: Some(entry.duration_us),
            outcome: entry.outcome,
            fault: None,
            gap: scope.is_none(),
            scope,
        },
    };
    name_callees(&mut trace.entry);
    trace
}

/// A call that never reached its callee knows it by address only; if another call to the same peer was answered, its name is known.
pub fn name_callees(entry: &mut Call) {
    fn learn(call: &Call, names: &mut HashMap<String, String>) {
        if let Some(scope) = &call.scope {
            names.insert(call.peer.clone(), scope.service.clone());
        }
        call.calls().iter().for_each(|child| learn(child, names));
    }
    fn apply(call: &mut Call, names: &HashMap<String, String>) {
        if let (None, Some(name)) = (&call.scope, names.get(&call.peer)) {
            call.callee.clone_from(name);
        }
        if let Some(scope) = &mut call.scope {
            scope.calls.iter_mut().for_each(|child| apply(child, names));
        }
    }
    let mut names = HashMap::new();
    learn(entry, &mut names);
    apply(entry, &names);
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
        calls: Vec::new(),
    };
    for event in segment.events {
        match event.what {
            What::SendRequest { name, peer, http, fault } => {
                let number = out.calls.len() as u32 + 1;
                out.calls.push(Call {
                    id: format!("{:016x}", call_id::derive(id, u64::from(number))),
                    number,
                    caller: out.service.clone(),
                    callee: peer.clone(),
                    name,
                    peer,
                    protocol: if http { Protocol::Http } else { Protocol::Grpc },
                    sent_us: event.at_us,
                    ended_us: None,
                    outcome: Outcome::Open,
                    fault: fault.map(|i| i as usize),
                    gap: false,
                    scope: None,
                });
            }
            What::RecvResponse(ended) => {
                let status = ended.status as u32;
                end(&mut out.calls, id, ended, event.at_us, Outcome::Replied { status });
            }
            What::CallFailed(ended) => {
                let status = ended.status as u32;
                end(&mut out.calls, id, ended, event.at_us, Outcome::Failed { status });
            }
            What::SendResponse { status } => {
                out.answered_us = Some(event.at_us);
                out.status = Some(status as u32);
            }
        }
    }
    // a call whose end nobody saw may have done anything
    for call in &mut out.calls {
        call.gap |= call.outcome == Outcome::Open;
    }
    out
}

fn end(calls: &mut [Call], scope_id: u64, ended: Ended, at_us: u64, outcome: Outcome) {
    let call = &mut calls[ended.call as usize - 1];
    call.ended_us = Some(at_us);
    call.outcome = outcome;
    call.gap = ended.gap;
    if let Some(child) = ended.child {
        call.callee.clone_from(&child.service);
        call.scope = Some(Box::new(scope(*child, call_id::derive(scope_id, ended.call))));
    }
}
