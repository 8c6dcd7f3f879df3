//! What the request does without faults: which calls each service makes, and in which order.
//!
//! A call is called additional only if the good run does not make it at that point. In an incomplete scope any call may
//! be missing, so there none is additional.

use model::sweep::CallName;
use model::trace::{Call, Outcome, Scope, Trace};
use std::collections::{HashMap, HashSet};

/// The calls of one name in one scope.
struct Calls {
    /// Positions in the scope.
    first: usize,
    last: usize,
    sent_us: u64,
    ended_us: u64,
}

struct ScopeCalls {
    by_name: HashMap<String, Calls>,
    is_incomplete: bool,
}

/// Computed once per sweep.
pub struct GoodRun {
    /// By service.
    scopes: HashMap<String, Vec<ScopeCalls>>,
    /// The callee's own names by those that its caller uses: a call that gets no reply has only the latter.
    names: HashMap<(String, String), (String, String)>,
    callees: HashMap<String, String>,
    /// Caller, `callee/call` and outcome of calls that fail without any fault.
    failures: HashSet<(String, String, Outcome)>,
    pub is_incomplete: bool,
    trace: Trace,
}

impl GoodRun {
    pub fn of(trace: &Trace) -> GoodRun {
        let mut good = GoodRun {
            scopes: HashMap::new(),
            names: HashMap::new(),
            callees: HashMap::new(),
            failures: HashSet::new(),
            is_incomplete: has_missing_calls(trace),
            trace: trace.clone(),
        };
        for call in std::iter::once(&trace.entry).chain(trace.walk()) {
            let own = (call.callee.clone(), call.label().to_owned());
            good.callees.entry(call.peer.clone()).or_insert_with(|| call.callee.clone());
            good.names.entry((call.peer.clone(), call.name.clone())).or_insert(own);
        }
        // the names must be known before calls are compared by them
        for call in std::iter::once(&trace.entry).chain(trace.walk()) {
            if !call.is_ok() {
                good.failures.insert((call.caller.clone(), good.short_name(call), call.outcome));
            }
            if let Some(scope) = call.scope.as_deref() {
                let calls = good.scope_calls(scope);
                good.scopes.entry(scope.service.clone()).or_default().push(calls);
            }
        }
        good
    }

    fn scope_calls(&self, scope: &Scope) -> ScopeCalls {
        let mut calls = ScopeCalls { by_name: HashMap::new(), is_incomplete: scope.is_incomplete() };
        for (at, call) in scope.calls.iter().enumerate() {
            let ended_us = call.ended_us.unwrap_or(u64::MAX);
            let one = Calls { first: at, last: at, sent_us: call.sent_us, ended_us };
            let all = calls.by_name.entry(self.short_name(call)).or_insert(one);
            all.last = at;
            all.ended_us = all.ended_us.max(ended_us);
        }
        calls
    }

    /// The call by the names that the good run uses for it.
    pub fn name_of(&self, call: &Call) -> CallName {
        let (callee, label) = match self.names.get(&(call.peer.clone(), call.name.clone())) {
            Some((callee, label)) => (callee.clone(), label.clone()),
            None => (self.callee_of(call), call.label().to_owned()),
        };
        CallName { caller: call.caller.clone(), callee, call: label }
    }

    /// The callee's own name, also if it did not reply.
    pub fn callee_of(&self, call: &Call) -> String {
        self.callees.get(&call.peer).unwrap_or(&call.callee).clone()
    }

    /// `currency/Convert`.
    pub fn short_name(&self, call: &Call) -> String {
        let name = self.name_of(call);
        format!("{}/{}", name.callee, name.call)
    }

    /// Whether this call ends like this without any fault, too.
    pub fn fails_like(&self, call: &Call) -> bool {
        !self.failures.is_empty() && self.failures.contains(&(call.caller.clone(), self.short_name(call), call.outcome))
    }

    /// The calls that the good run makes below this one, nested ones included, each before those it makes.
    pub fn below(&self, call: &Call) -> Vec<&Call> {
        let name = self.short_name(call);
        let is_same = |other: &&Call| other.caller == call.caller && self.short_name(other) == name;
        let mut below: Vec<&Call> = Vec::new();
        let mut stack: Vec<&Call> =
            self.trace.walk().into_iter().find(is_same).map_or(&[][..], Call::calls).iter().rev().collect();
        while let Some(call) = stack.pop() {
            below.push(call);
            stack.extend(call.calls().iter().rev());
        }
        below
    }

    pub fn changes_state(&self, call: &Call) -> bool {
        self.trace.changes_state(call)
    }

    /// Whether the good run makes this call, as far as is known.
    pub fn makes(&self, call: &Call) -> bool {
        let name = self.short_name(call);
        let scopes = self.scopes.get(&call.caller);
        scopes.is_none_or(|all| all.iter().any(|scope| scope.is_incomplete || scope.by_name.contains_key(&name)))
    }

    /// Whether `next` may follow `call` in the good run, both of one scope: it does so there, or they overlap there, or
    /// nothing is known about it. If it may, `next` is no consequence of the failure of `call`.
    pub fn may_follow(&self, call: &Call, next: &Call) -> bool {
        let (name, next_name) = (self.short_name(call), self.short_name(next));
        if name == next_name {
            return true;
        }
        let Some(scopes) = self.scopes.get(&call.caller) else { return true };
        let mut makes_call = false;
        for scope in scopes {
            if scope.is_incomplete {
                return true;
            }
            let Some(call) = scope.by_name.get(&name) else { continue };
            makes_call = true;
            let Some(next) = scope.by_name.get(&next_name) else { continue };
            if call.first < next.last || (call.sent_us < next.ended_us && next.sent_us < call.ended_us) {
                return true;
            }
        }
        !makes_call
    }
}

/// Whether calls may be missing in a trace: no conclusion follows from the absence of one.
pub fn has_missing_calls(trace: &Trace) -> bool {
    let misses = |call: &Call| call.unreadable.is_some() || call.scope.as_ref().is_some_and(|s| s.is_incomplete());
    misses(&trace.entry) || trace.walk().into_iter().any(misses)
}
