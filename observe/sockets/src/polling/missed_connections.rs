//! Counts the TCP connections of one network namespace that lived between two polls: those that the kernel counted as
//! opened and no poll found. Each end counts.
//!
//! The kernel counts opened TCP connections (`ActiveOpens` and `PassiveOpens` in `/proc/net/snmp`, with failed
//! attempts), but neither UDP exchanges nor Unix connections, so the number of those is not known.
//!
//! The result is a lower bound. The kernel's count is read before the sockets, so that a connection in it is found or
//! has ended. A dump may skip a socket while others are opened and closed, so a connection counts as missed if two
//! consecutive polls do not account for it.

use std::fs::File;
use std::io::{self, Read, Seek};

/// Must be opened in the namespace, by the thread that entered it.
const STATISTICS: &str = "/proc/thread-self/net/snmp";

pub struct MissedConnections {
    /// None if the kernel's counts cannot be read: then none are reported.
    statistics: Option<File>,
    tally: Tally,
}

impl MissedConnections {
    /// `existed_before`: connections may be older than the first poll.
    pub fn of_current_namespace(existed_before: bool) -> MissedConnections {
        let before = if existed_before { None } else { Some(0) };
        MissedConnections { statistics: File::open(STATISTICS).ok(), tally: Tally { before, ..Tally::default() } }
    }

    /// Call it before the sockets are read.
    pub fn begin(&mut self) {
        let opened = self.opened();
        self.tally.begin(opened);
    }

    /// Records a TCP connection that this poll found and no earlier one.
    pub fn found(&mut self) {
        self.tally.found_now += 1;
    }

    /// Call it after the sockets were read. Returns the number of connections missed since the last call.
    pub fn end(&mut self) -> u64 {
        if self.tally.before.is_none() {
            self.tally.before = self.opened();
            return 0;
        }
        self.tally.end()
    }

    /// The number missed since the last call of [`MissedConnections::end`], if the namespace has ended.
    pub fn close(mut self) -> u64 {
        let opened = self.opened();
        self.tally.close(opened)
    }

    fn opened(&mut self) -> Option<u64> {
        let opened = self.statistics.as_ref().and_then(|file| opened(file).ok().flatten());
        if opened.is_none() {
            self.statistics = None;
        }
        opened
    }
}

#[derive(Debug, Default)]
struct Tally {
    /// The kernel's count when the first poll was complete: older connections are not new.
    before: Option<u64>,
    /// The kernel's count at the beginning of this poll.
    opened: Option<u64>,
    /// Found by earlier polls.
    found: u64,
    found_now: u64,
    /// Not accounted for after the last poll.
    missing: u64,
    reported: u64,
}

impl Tally {
    fn begin(&mut self, opened: Option<u64>) {
        self.opened = opened;
        self.found_now = 0;
    }

    fn end(&mut self) -> u64 {
        self.found += self.found_now;
        let missing_before = self.missing;
        self.missing = self.missing();
        self.report(self.missing.min(missing_before))
    }

    fn close(&mut self, opened: Option<u64>) -> u64 {
        self.opened = opened;
        self.report(self.missing())
    }

    fn missing(&self) -> u64 {
        let (Some(before), Some(opened)) = (self.before, self.opened) else { return 0 };
        opened.saturating_sub(before).saturating_sub(self.found)
    }

    fn report(&mut self, missed: u64) -> u64 {
        let new = missed.saturating_sub(self.reported);
        self.reported += new;
        new
    }
}

/// The number of TCP connections that were opened at either end, or none if the format is unknown.
fn opened(mut statistics: &File) -> io::Result<Option<u64>> {
    let mut text = String::new();
    // the kernel writes the text again for each read at its start
    statistics.rewind()?;
    statistics.read_to_string(&mut text)?;
    Ok(parse(&text))
}

/// A line of names is followed by one of values, each after the name of the protocol.
fn parse(text: &str) -> Option<u64> {
    let mut tcp = text.lines().filter_map(|line| line.strip_prefix("Tcp:")).map(str::split_ascii_whitespace);
    let (names, values) = (tcp.next()?, tcp.next()?);
    let of = |(name, value): (&str, &str)| match name {
        "ActiveOpens" | "PassiveOpens" => value.parse::<u64>().ok(),
        _ => None,
    };
    let counts: Vec<u64> = names.zip(values).filter_map(of).collect();
    (counts.len() == 2).then(|| counts.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poll(tally: &mut Tally, opened: u64, found: u64) -> u64 {
        tally.begin(Some(opened));
        tally.found_now = found;
        tally.end()
    }

    #[test]
    fn connections_that_two_polls_do_not_account_for_are_missed() {
        let mut tally = Tally { before: Some(100), ..Tally::default() };
        assert_eq!(poll(&mut tally, 110, 4), 0, "a dump may have skipped them");
        assert_eq!(poll(&mut tally, 110, 1), 5, "one was skipped");
        assert_eq!(poll(&mut tally, 110, 0), 0, "each is reported once");
        assert_eq!(poll(&mut tally, 120, 12), 0, "two were opened while the poll read");
        assert_eq!(poll(&mut tally, 122, 0), 0);
        tally.begin(Some(125));
        assert_eq!(tally.close(Some(130)), 8, "nothing can find them anymore");
    }

    #[test]
    fn a_poll_that_failed_is_repeated() {
        let mut tally = Tally { before: Some(0), ..Tally::default() };
        tally.begin(Some(5));
        tally.found_now = 5;
        assert_eq!((poll(&mut tally, 5, 5), poll(&mut tally, 5, 0)), (0, 0));
        assert_eq!((poll(&mut tally, 6, 0), poll(&mut tally, 6, 0)), (0, 1));
    }

    #[test]
    fn counts_are_found_by_name() {
        let text = "Ip: Forwarding DefaultTTL\nIp: 2 64\nTcp: RtoMax ActiveOpens PassiveOpens InErrs\nTcp: -1 7 5 9\n";
        assert_eq!(parse(text), Some(12));
        assert_eq!(parse(&text.replace("PassiveOpens", "Opens")), None);
        assert_eq!(parse("Tcp: ActiveOpens PassiveOpens\n"), None);
        let file = File::open(STATISTICS).unwrap();
        assert!(opened(&file).unwrap().is_some());
    }
}
