//! Assigns slices to lanes, so that concurrent ones do not overlap.
//!
//! Two slices of one lane (a thread in Perfetto) must be nested or disjoint. A scope opens a lane, and its sequential
//! calls share it; calls that overlap get lanes of their own. Slices are assigned in order of their start. The time per
//! slice does not depend on the number of lanes, since thousands of concurrent requests need thousands of lanes.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};
use wire::span::{Side, Span};

/// A span with its start and end on the common axis, in µs.
pub(crate) struct Slice<'a> {
    pub span: &'a Span,
    pub trace: usize,
    pub start: i128,
    pub end: i128,
}

/// Number of a trace, and the id of one of its spans.
type Key = (usize, u64);

#[derive(Default)]
pub(crate) struct Lanes {
    /// For each lane, the slices that are open at the current time, the outermost first, with their ends.
    open: Vec<Vec<(i128, Key)>>,
    /// Lanes without an open slice.
    free: BTreeSet<usize>,
    /// Ends of all open slices, the earliest first, with their lanes.
    ends: BinaryHeap<Reverse<(i128, usize)>>,
    /// Open slice → its lane.
    lane_of: HashMap<Key, usize>,
}

impl Lanes {
    /// The lane of a slice: that of its scope if no other call of the scope is open, else the first free one.
    pub fn assign(&mut self, slice: &Slice) -> usize {
        self.close(slice.start);
        let own = match slice.span.side {
            Side::Client => slice.span.parent.and_then(|parent| self.lane_of_scope((slice.trace, parent), slice.end)),
            Side::Server => None,
        };
        let lane = own.or_else(|| self.free.pop_first()).unwrap_or_else(|| {
            self.open.push(Vec::new());
            self.open.len() - 1
        });
        let key = (slice.trace, slice.span.id);
        self.open[lane].push((slice.end, key));
        self.ends.push(Reverse((slice.end, lane)));
        self.lane_of.insert(key, lane);
        lane
    }

    /// The lane in which the scope is the innermost open slice, if it is open until `end` at least.
    fn lane_of_scope(&self, scope: Key, end: i128) -> Option<usize> {
        let lane = *self.lane_of.get(&scope)?;
        self.open[lane].last().is_some_and(|(until, key)| *key == scope && end <= *until).then_some(lane)
    }

    /// Closes the slices that ended by `now`.
    fn close(&mut self, now: i128) {
        while let Some(Reverse((_, lane))) = self.ends.peek().filter(|Reverse((end, _))| *end <= now).copied() {
            self.ends.pop();
            let open = &mut self.open[lane];
            for (_, key) in open.extract_if(.., |(end, _)| *end <= now) {
                self.lane_of.remove(&key);
            }
            if open.is_empty() {
                self.free.insert(lane);
            }
        }
    }
}
