//! Lanes of slices: where one begins while others go on.
//!
//! Slices of one lane (thread) must lie inside each other or apart. A scope opens a lane, its calls lie in it one after the
//! other; calls that overlap get lanes of their own. Slices come in the order in which they begin; what a slice costs does not
//! grow with the number of lanes, which thousands of requests under way at once may make large.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};
use wire::span::{Side, Span};

/// A span with its place: µs on the common axis.
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
    /// For each lane, the slices that are open where we are, the outermost first, with their ends.
    open: Vec<Vec<(i128, Key)>>,
    /// Lanes in which nothing is open.
    free: BTreeSet<usize>,
    /// Ends of all open slices, the earliest first, with their lanes.
    ends: BinaryHeap<Reverse<(i128, usize)>>,
    /// Open slice → its lane.
    lane_of: HashMap<Key, usize>,
}

impl Lanes {
    /// The lane of a slice: its scope's own if nothing else of it is going on there, else the first free one.
    pub fn place(&mut self, slice: &Slice) -> usize {
        self.close(slice.start);
        let own = match slice.span.side {
            Side::Client => slice.span.parent.and_then(|parent| self.around((slice.trace, parent), slice.end)),
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

    /// The lane in which the scope is the innermost open slice, if it lasts at least until then.
    fn around(&self, scope: Key, end: i128) -> Option<usize> {
        let lane = *self.lane_of.get(&scope)?;
        self.open[lane].last().is_some_and(|(until, key)| *key == scope && end <= *until).then_some(lane)
    }

    /// Ends what is over by now.
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
