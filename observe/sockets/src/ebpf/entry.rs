//! Activity of one flow since its last report, and whether to report it now.

use super::layout::FlowCounts;
use flows::Counts;
use std::time::{Duration, Instant};

/// An idle open flow is reported at least this often, because the database stores counts per minute.
const REPORT_WITHIN: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, Default)]
pub struct Entry {
    /// Since the last report; `open` is the current number.
    pub counts: Counts,
    pub example_port: u16,
    /// While a comparison runs: connections that were open when it began and were neither visited nor closed yet.
    pub unmatched: i64,
    /// Time of the last report, and the number of open connections at that time.
    reported: Option<(Instant, u32)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    None,
    /// Only byte counts changed, or the flow is open and idle for long.
    Quiet,
    Urgent,
}

impl Entry {
    pub fn add(&mut self, new: &FlowCounts) {
        let counts = &mut self.counts;
        let started = u64::from(new.opened) + u64::from(new.adopted);
        let ended = u64::from(new.failed) + u64::from(new.closed);
        counts.opened += u64::from(new.opened);
        counts.established += u64::from(new.established);
        counts.failed += u64::from(new.failed);
        counts.closed += u64::from(new.closed);
        counts.open = (counts.open + started).saturating_sub(ended);
        counts.sent += new.sent;
        counts.received += new.received;
        self.unmatched -= i64::from(new.compared) + i64::from(new.ended);
        if new.example_port != 0 {
            self.example_port = new.example_port as u16;
        }
    }

    /// Closes the connections that the comparison did not match. Returns their number.
    pub fn close_unmatched(&mut self) -> u64 {
        let lost = u64::try_from(self.unmatched).unwrap_or(0).min(self.counts.open);
        self.counts.closed += lost;
        self.counts.open -= lost;
        lost
    }

    pub fn mark_reported(&mut self, now: Instant) {
        let open = self.counts.open;
        self.counts = Counts { open, ..Counts::default() };
        self.reported = Some((now, open as u32));
    }

    /// Whether it has no open connections, also according to the last report.
    pub fn is_closed(&self) -> bool {
        self.counts.open == 0 && self.reported.is_none_or(|(_, open)| open == 0)
    }

    /// `next` is the time of the next possible report.
    pub fn urgency(&self, next: Instant) -> Urgency {
        let Counts { opened, established, failed, closed, open, sent, received } = self.counts;
        let Some((when, open_then)) = self.reported else {
            return if self.counts == Counts::default() { Urgency::None } else { Urgency::Urgent };
        };
        if opened + established + failed + closed > 0 || open as u32 != open_then {
            Urgency::Urgent
        } else if sent + received > 0 || open > 0 && next >= when + REPORT_WITHIN {
            Urgency::Quiet
        } else {
            Urgency::None
        }
    }

    /// Adds a flow of the same interval, unlike [`Counts::add`].
    pub fn merge(&mut self, other: &Entry) {
        self.counts.add_concurrent(&other.counts);
        self.unmatched += other.unmatched;
        if other.example_port != 0 {
            self.example_port = other.example_port;
        }
        self.reported = match (self.reported, other.reported) {
            (Some((when, open)), Some((other_when, other_open))) => Some((when.min(other_when), open + other_open)),
            (one, other) => one.or(other),
        };
    }
}
