//! Traces of any depth. An imported trace may nest thousands of calls, for which a recursive function would overflow
//! the stack. So everything that visits all calls of a trace does so in loops, over a flat list.
//!
//! The same list is the form of a deep trace in JSON, because parsers limit the nesting:
//!
//! ```text
//! {"trace_id": …, "entry": {…, "scope": {…, "calls": [{…}]}}}                 up to NESTED_DEPTH_MAX levels of calls
//! {"trace_id": …, "entry": {…, "scope": {…, "calls": []}}, "below": [
//!     {"depth": 1, "call": {…, "scope": {…, "calls": []}}}, …]}             deeper: all calls, each before those below
//! ```

use super::{Call, Scope, Trace};
use serde::ser::SerializeStruct;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Each level of calls is three levels of JSON, of which serde_json reads 128. A trace may be a part of a document.
pub const NESTED_DEPTH_MAX: usize = 32;

/// All calls below `calls` and they themselves, each before the calls that it caused, with their depth from 1.
pub(super) fn flat(calls: &[Call]) -> Vec<(usize, &Call)> {
    let mut out = Vec::new();
    let mut open = vec![calls.iter()];
    while let Some(siblings) = open.last_mut() {
        let Some(call) = siblings.next() else {
            open.pop();
            continue;
        };
        out.push((open.len(), call));
        if !call.calls().is_empty() {
            open.push(call.calls().iter());
        }
    }
    out
}

/// The inverse of [`flat`], for calls without calls below them. A call that is deeper than its predecessor by more than
/// one, or that is below a call without a scope, has no place and is dropped.
pub fn nest(calls: Vec<(usize, Call)>) -> Vec<Call> {
    // From the end, so that the calls below a call are complete when it is reached. Each list is in reverse order.
    let mut pending: Vec<Vec<Call>> = vec![Vec::new()];
    for (depth, mut call) in calls.into_iter().rev() {
        let depth = depth.max(1) - 1;
        if pending.len() < depth + 2 {
            pending.resize_with(depth + 2, Vec::new);
        }
        // what is deeper than one level below has no place
        pending.truncate(depth + 2);
        if let Some(scope) = &mut call.scope {
            scope.calls = std::mem::take(&mut pending[depth + 1]);
            scope.calls.reverse();
        }
        pending[depth + 1].clear();
        pending[depth].push(call);
    }
    let mut top = std::mem::take(&mut pending[0]);
    top.reverse();
    top
}

impl Scope {
    fn without_calls(&self) -> Scope {
        let Scope { service, name, start_us, answered_us, status, truncated, faults_off, unscoped, calls: _ } = self;
        Scope {
            service: service.clone(),
            name: name.clone(),
            start_us: *start_us,
            answered_us: *answered_us,
            status: *status,
            truncated: *truncated,
            faults_off: *faults_off,
            unscoped: unscoped.clone(),
            calls: Vec::new(),
        }
    }
}

impl Call {
    /// The call itself, without those that it caused.
    pub fn without_calls(&self) -> Call {
        Call {
            id: self.id.clone(),
            number: self.number,
            caller: self.caller.clone(),
            callee: self.callee.clone(),
            name: self.name.clone(),
            peer: self.peer.clone(),
            protocol: self.protocol,
            sent_us: self.sent_us,
            ended_us: self.ended_us,
            outcome: self.outcome,
            fault: self.fault,
            inherited: self.inherited,
            connect_us: self.connect_us,
            gap: self.gap,
            unreadable: self.unreadable.clone(),
            scope: self.scope.as_ref().map(|scope| Box::new(scope.without_calls())),
        }
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        let mut open = std::mem::take(&mut self.calls);
        while let Some(mut call) = open.pop() {
            if let Some(scope) = &mut call.scope {
                open.append(&mut scope.calls);
            }
        }
    }
}

impl Clone for Scope {
    fn clone(&self) -> Scope {
        let calls = flat(&self.calls).into_iter().map(|(depth, call)| (depth, call.without_calls())).collect();
        let mut scope = self.without_calls();
        scope.calls = nest(calls);
        scope
    }
}

impl PartialEq for Scope {
    fn eq(&self, other: &Scope) -> bool {
        let is_equal = |a: &Scope, b: &Scope| {
            let Scope { service, name, start_us, answered_us, status, truncated, faults_off, unscoped, calls: _ } = a;
            (service, name, start_us, answered_us) == (&b.service, &b.name, &b.start_us, &b.answered_us)
                && (status, truncated, faults_off, unscoped) == (&b.status, &b.truncated, &b.faults_off, &b.unscoped)
        };
        // the comparison of calls without calls below them ends here again, one level deeper
        let (own, others) = (flat(&self.calls), flat(&other.calls));
        is_equal(self, other)
            && own.len() == others.len()
            && own.iter().zip(&others).all(|(a, b)| a.0 == b.0 && a.1.without_calls() == b.1.without_calls())
    }
}

impl Eq for Scope {}

impl Trace {
    /// The number of levels of calls below the entry.
    pub fn depth(&self) -> usize {
        flat(self.entry.calls()).into_iter().map(|(depth, _)| depth).max().unwrap_or(0)
    }

    /// Every call below the entry, as [`Trace::walk`], with its depth from 1.
    pub fn walk_with_depth(&self) -> Vec<(usize, &Call)> {
        flat(self.entry.calls())
    }

    /// The trace without the calls below a depth, and the number of calls that were left out.
    pub fn cut_below(&self, depth_max: usize) -> (Trace, usize) {
        let all = flat(self.entry.calls());
        let count = all.len();
        let kept: Vec<(usize, Call)> = all
            .into_iter()
            .filter(|(depth, _)| *depth <= depth_max)
            .map(|(depth, call)| (depth, call.without_calls()))
            .collect();
        let left_out = count - kept.len();
        (Trace::of(self.trace_id.clone(), self.entry.without_calls(), kept), left_out)
    }

    /// A trace of an entry call without calls below it, and the calls below it as [`Trace::walk_with_depth`] has them.
    pub fn of(trace_id: String, mut entry: Call, below: Vec<(usize, Call)>) -> Trace {
        let calls = nest(below);
        if let Some(scope) = &mut entry.scope {
            scope.calls = calls;
        }
        Trace { trace_id, entry }
    }
}

#[derive(Serialize, Deserialize)]
struct Below<C> {
    depth: usize,
    call: C,
}

impl Serialize for Trace {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let all = flat(self.entry.calls());
        if all.iter().all(|(depth, _)| *depth <= NESTED_DEPTH_MAX) {
            let mut trace = serializer.serialize_struct("Trace", 2)?;
            trace.serialize_field("trace_id", &self.trace_id)?;
            trace.serialize_field("entry", &self.entry)?;
            return trace.end();
        }
        let below: Vec<_> = all.into_iter().map(|(depth, call)| Below { depth, call: call.without_calls() }).collect();
        let mut trace = serializer.serialize_struct("Trace", 3)?;
        trace.serialize_field("trace_id", &self.trace_id)?;
        trace.serialize_field("entry", &self.entry.without_calls())?;
        trace.serialize_field("below", &below)?;
        trace.end()
    }
}

impl<'de> Deserialize<'de> for Trace {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Trace, D::Error> {
        #[derive(Deserialize)]
        struct Stored {
            trace_id: String,
            entry: Call,
            #[serde(default)]
            below: Vec<Below<Call>>,
        }
        let Stored { trace_id, entry, below } = Stored::deserialize(deserializer)?;
        if below.is_empty() {
            return Ok(Trace { trace_id, entry });
        }
        Ok(Trace::of(trace_id, entry, below.into_iter().map(|one| (one.depth, one.call)).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Outcome, Protocol};

    fn call(name: &str) -> Call {
        let scope = Scope {
            service: "s".into(),
            name: String::new(),
            start_us: 1,
            answered_us: Some(2),
            status: Some(0),
            truncated: false,
            faults_off: false,
            unscoped: Vec::new(),
            calls: Vec::new(),
        };
        Call {
            id: "00".into(),
            number: 1,
            caller: "c".into(),
            callee: "s".into(),
            name: name.into(),
            peer: "s".into(),
            protocol: Protocol::Grpc,
            sent_us: 0,
            ended_us: Some(3),
            outcome: Outcome::Replied { status: 0 },
            fault: None,
            inherited: false,
            connect_us: None,
            gap: false,
            unreadable: None,
            scope: Some(Box::new(scope)),
        }
    }

    /// Calls by their depths.
    fn trace(depths: &[usize]) -> Trace {
        let below = depths.iter().enumerate().map(|(i, depth)| (*depth, call(&format!("c{i}")))).collect();
        Trace::of("ab".into(), call("entry"), below)
    }

    fn depths(trace: &Trace) -> Vec<(usize, String)> {
        trace.walk_with_depth().into_iter().map(|(depth, call)| (depth, call.name.clone())).collect()
    }

    #[test]
    fn calls_keep_their_order_and_depth() {
        let list = [1, 2, 3, 3, 2, 1, 1, 2];
        let expected: Vec<(usize, String)> =
            list.iter().enumerate().map(|(i, depth)| (*depth, format!("c{i}"))).collect();
        assert_eq!(depths(&trace(&list)), expected);
        assert_eq!(depths(&trace(&list).clone()), expected);
        assert_eq!(trace(&list), trace(&list));
        assert_ne!(trace(&list), trace(&[1, 2, 3, 3, 2, 1, 1, 1]));
        let (cut, left_out) = trace(&list).cut_below(2);
        assert_eq!((cut.walk().len(), cut.depth(), left_out), (6, 2, 2));
    }

    #[test]
    fn a_call_without_a_place_is_dropped() {
        assert_eq!(depths(&trace(&[1, 3, 1])), [(1, "c0".into()), (1, "c2".into())]);
        let mut leaf = call("leaf");
        leaf.scope = None;
        let below = vec![(1, leaf), (2, call("lost"))];
        assert_eq!(Trace::of("ab".into(), call("entry"), below).walk().len(), 1);
    }

    #[test]
    fn shallow_traces_are_stored_as_before_and_deep_ones_as_a_list() {
        let nested: Vec<usize> = (1..=NESTED_DEPTH_MAX).collect();
        let text = serde_json::to_string(&trace(&nested)).unwrap();
        assert!(!text.contains("below"));
        assert_eq!(serde_json::from_str::<Trace>(&text).unwrap(), trace(&nested));
        let deep: Vec<usize> = (1..=NESTED_DEPTH_MAX + 1).collect();
        let text = serde_json::to_string(&trace(&deep)).unwrap();
        assert!(text.contains("\"below\""));
        assert_eq!(serde_json::from_str::<Trace>(&text).unwrap(), trace(&deep));
    }

    /// A chain of 20,000 imported calls could not be read again ("recursion limit exceeded").
    #[test]
    fn a_chain_of_a_hundred_thousand_calls_needs_no_stack() {
        let small_stack = std::thread::Builder::new().stack_size(128 << 10);
        let checked = small_stack.spawn(|| {
            let deep = trace(&(1..=100_000).collect::<Vec<_>>());
            assert_eq!((deep.walk().len(), deep.depth(), deep.gaps()), (100_000, 100_000, 0));
            let text = serde_json::to_string(&deep).unwrap();
            let read: Trace = serde_json::from_str(&text).unwrap();
            assert!(read == deep);
            assert!(read.clone() == deep);
        });
        checked.unwrap().join().unwrap();
    }
}
