//! Compares two requests: which call of one corresponds to which call of the other.
//!
//! Calls of the same scope are matched in order by peer and name (longest common subsequence, the earliest of equal
//! ones), then the calls below them likewise. Service clocks are never compared: a scope is drawn in the center of the
//! bar of the call that caused it, as if both directions took equally long.

use crate::lcs;
use model::trace::{Call, Outcome, Trace};
use std::hash::{DefaultHasher, Hash, Hasher};

/// A call with its position on the request's time axis, in µs since the request was sent.
#[derive(Clone, Copy)]
pub(crate) struct Placed<'a> {
    pub call: &'a Call,
    pub start: f64,
    pub end: f64,
    /// The callee's own part of it.
    pub scope: Option<(f64, f64)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Change {
    Same,
    /// Succeeded in the good request, but not in the other.
    Failed,
    /// Ended differently from the good request.
    Other,
    Missing,
    Extra,
}

/// A call in the good request, in the other, or in both. A single request is all `good`.
pub(crate) struct Node<'a> {
    pub good: Option<Placed<'a>>,
    pub now: Option<Placed<'a>>,
    pub change: Change,
    pub children: Vec<Node<'a>>,
    /// Equal for calls with equal display and outcome, including all calls below.
    pub shape: u64,
    /// A change, a failure, a fault or a gap here or below.
    pub notable: bool,
    /// The number of calls below.
    pub below: usize,
}

impl<'a> Node<'a> {
    /// The call that names the row: the good one if there is one, as it reached its callee.
    pub(crate) fn either(&self) -> &Placed<'a> {
        self.good.as_ref().or(self.now.as_ref()).expect("a node has a call")
    }

    /// Whether nothing changed here or below.
    #[cfg(test)]
    pub(crate) fn is_unchanged(&self) -> bool {
        self.change == Change::Same && self.children.iter().all(Node::is_unchanged)
    }
}

pub(crate) fn one(trace: &Trace) -> Node<'_> {
    join(Some(place_entry(&trace.entry)), None, false)
}

pub(crate) fn two<'a>(good: &'a Trace, now: &'a Trace) -> Node<'a> {
    join(Some(place_entry(&good.entry)), Some(place_entry(&now.entry)), true)
}

/// The end of the last bar, at least 1.
pub(crate) fn extent(node: &Node) -> f64 {
    let own = [node.good, node.now]
        .into_iter()
        .flatten()
        .map(|p| p.end.max(p.scope.map_or(0.0, |s| s.1)))
        .fold(1.0, f64::max);
    node.children.iter().map(extent).fold(own, f64::max)
}

fn scope_length(call: &Call) -> f64 {
    let Some(scope) = &call.scope else { return 0.0 };
    let last = scope.calls.iter().map(|c| c.ended_us.unwrap_or(c.sent_us)).max().unwrap_or(0);
    scope.answered_us.unwrap_or(0).max(last) as f64
}

fn place(call: &Call, origin: f64, parent_end: f64) -> Placed<'_> {
    let start = origin + call.sent_us as f64;
    let length = scope_length(call);
    let end = match call.ended_us {
        Some(end) => (origin + end as f64).max(start),
        None => parent_end.max(start + length),
    };
    let scope = call.scope.as_ref().map(|_| {
        let begin = start + ((end - start - length) / 2.0).max(0.0);
        (begin, begin + length)
    });
    Placed { call, start, end, scope }
}

pub(crate) fn place_entry(call: &Call) -> Placed<'_> {
    place(call, -(call.sent_us as f64), scope_length(call))
}

/// A call that `parent` caused.
pub(crate) fn place_below<'a>(parent: &Placed, call: &'a Call) -> Placed<'a> {
    let (begin, end) = parent.scope.unwrap_or((parent.start, parent.end));
    place(call, begin, end)
}

fn place_calls<'a>(parent: Option<&Placed<'a>>) -> Vec<Placed<'a>> {
    let Some(parent) = parent else {
        return Vec::new();
    };
    parent.call.calls().iter().map(|call| place_below(parent, call)).collect()
}

fn key(p: &Placed) -> u64 {
    let mut h = DefaultHasher::new();
    let peer = if p.call.peer.is_empty() { &p.call.callee } else { &p.call.peer };
    (peer, &p.call.name).hash(&mut h);
    h.finish()
}

fn join<'a>(good: Option<Placed<'a>>, now: Option<Placed<'a>>, compare: bool) -> Node<'a> {
    let (left, right) = (place_calls(good.as_ref()), place_calls(now.as_ref()));
    let children: Vec<Node> = match_up(&left, &right)
        .into_iter()
        .map(|(l, r)| join(l.map(|i| left[i]), r.map(|i| right[i]), compare))
        .collect();
    let change = match (&good, &now) {
        (Some(g), Some(n)) if g.call.outcome == n.call.outcome => Change::Same,
        (Some(g), Some(n)) if g.call.is_ok() && !n.call.is_ok() => Change::Failed,
        (Some(_), Some(_)) => Change::Other,
        (Some(_), None) if compare => Change::Missing,
        (None, Some(_)) => Change::Extra,
        _ => Change::Same,
    };
    let mut h = DefaultHasher::new();
    change.hash(&mut h);
    let mut notable = change != Change::Same;
    for p in [&good, &now] {
        if let Some(Placed { call, .. }) = p {
            let (kind, status) = match call.outcome {
                Outcome::Replied { status } => (0, status),
                Outcome::Failed { status } => (1, status),
                Outcome::Open => (2, 0),
            };
            let incomplete = call.scope.as_ref().map(|s| s.is_incomplete());
            let marks = (call.fault, call.gap, call.inherited, incomplete);
            (key(p.as_ref().expect("just matched")), call.label(), kind, status, marks).hash(&mut h);
            notable |= !call.is_ok() || call.fault.is_some() || call.gap || call.inherited || incomplete == Some(true);
        } else {
            0u8.hash(&mut h);
        }
    }
    let mut previous = None;
    for child in &children {
        // a row of equal calls counts once, as it is drawn as one row
        if previous.replace(child.shape) != Some(child.shape) {
            child.shape.hash(&mut h);
        }
        notable |= child.notable;
    }
    let below = children.iter().map(|c| 1 + c.below).sum();
    Node { good, now, change, children, shape: h.finish(), notable, below }
}

/// Pairs of indices in display order; every index of both sides appears once.
fn match_up(left: &[Placed], right: &[Placed]) -> Vec<(Option<usize>, Option<usize>)> {
    let keys = |calls: &[Placed]| calls.iter().map(key).collect::<Vec<u64>>();
    lcs::align(&keys(left), &keys(right))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shop;

    fn changes(node: &Node) -> Vec<(String, Change)> {
        node.children.iter().map(|c| (c.either().call.label().to_owned(), c.change)).collect()
    }

    #[test]
    fn a_failing_request_keeps_its_first_calls_and_misses_the_rest() {
        let (sweep, _) = shop::sweep();
        let node = two(&sweep.good, &sweep.bugs[0].trace);
        let changes = changes(&node);
        assert_eq!(node.change, Change::Failed);
        assert_eq!(changes.len(), 14);
        assert_eq!(changes[2], ("GetCart".into(), Change::Same));
        assert_eq!(changes[3], ("Convert".into(), Change::Failed));
        assert!(changes[4..].iter().all(|(_, c)| *c == Change::Missing));
    }

    #[test]
    fn a_call_that_only_the_fallback_makes_is_extra() {
        let (sweep, _) = shop::sweep();
        let changes = changes(&two(&sweep.good, &sweep.bugs[1].trace));
        assert_eq!(changes.last().unwrap(), &("Convert".into(), Change::Extra));
        assert!(changes.contains(&("GetAds".into(), Change::Failed)));
        assert_eq!(changes.iter().filter(|(_, c)| *c == Change::Missing).count(), 10);
    }

    #[test]
    fn a_scope_is_centered_in_its_call_and_never_begins_before_it() {
        let trace = shop::checkout();
        let node = one(&trace);
        fn check(node: &Node) {
            let p = node.either();
            if let Some((begin, end)) = p.scope {
                assert!(begin >= p.start, "{}", p.call.label());
                if end <= p.end {
                    assert!(((begin - p.start) - (p.end - end)).abs() < 1e-6);
                }
            }
            node.children.iter().for_each(check);
        }
        check(&node);
    }

    #[test]
    fn a_request_compared_with_itself_is_unchanged() {
        let good = shop::good();
        assert!(two(&good, &good).is_unchanged());
        let node = one(&good);
        assert!(node.is_unchanged() && !node.notable);
        assert_eq!(node.below, 14);
    }
}
