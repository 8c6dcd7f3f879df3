//! What the connections of one kind did since it was told, and whether that is worth telling.

use super::layout::FlowCounts;
use flows::Counts;
use std::time::{Duration, Instant};

/// An open connection that does nothing is named at least this often: the database counts by minutes.
const NAME_WITHIN: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, Default)]
pub struct Entry {
    /// Since last told; `open` holds for now.
    pub counts: Counts,
    pub example_port: u16,
    /// When it was told last, and how many were open then.
    told: Option<(Instant, u32)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    None,
    /// Bytes of connections that stay open, or nothing but that they do.
    Quiet,
    Urgent,
}

impl Entry {
    pub fn add(&mut self, new: &FlowCounts) {
        let counts = &mut self.counts;
        let begun = u64::from(new.opened) + u64::from(new.adopted);
        let ended = u64::from(new.failed) + u64::from(new.closed) + u64::from(new.moved);
        counts.opened += u64::from(new.opened);
        counts.established += u64::from(new.established);
        counts.failed += u64::from(new.failed);
        counts.closed += u64::from(new.closed);
        counts.open = (counts.open + begun).saturating_sub(ended);
        counts.sent += new.sent;
        counts.received += new.received;
        if new.example_port != 0 {
            self.example_port = new.example_port as u16;
        }
    }

    pub fn told(&mut self, now: Instant) {
        let open = self.counts.open;
        self.counts = Counts { open, ..Counts::default() };
        self.told = Some((now, open as u32));
    }

    /// `next`: when it can be told again, if not now.
    pub fn news(&self, next: Instant) -> News {
        let Counts { opened, established, failed, closed, open, sent, received } = self.counts;
        let Some((when, open_then)) = self.told else {
            return if self.counts == Counts::default() { News::None } else { News::Urgent };
        };
        if opened + established + failed + closed > 0 || open as u32 != open_then {
            News::Urgent
        } else if sent + received > 0 || open > 0 && next >= when + NAME_WITHIN {
            News::Quiet
        } else {
            News::None
        }
    }

    /// Of the same interval, unlike [`Counts::add`].
    pub fn merge(&mut self, other: &Entry) {
        self.counts.add_beside(&other.counts);
        if other.example_port != 0 {
            self.example_port = other.example_port;
        }
        self.told = match (self.told, other.told) {
            (Some((when, open)), Some((other_when, other_open))) => Some((when.min(other_when), open + other_open)),
            (told, other_told) => told.or(other_told),
        };
    }
}
