//! A trace as a tree with timing bars. Equal neighbors are drawn as one row, `Convert ×10`.

use app::text::{grouped, milliseconds, outcome, printable};
use model::Fault;
use model::trace::{Call, Trace};
use std::fmt::Write;

const LABEL: usize = 42;
const CALLEE: usize = 16;
const BAR: usize = 18;

/// Rows beyond this are counted instead of drawn.
pub const ROWS_MAX: usize = 400;

/// Reasons beyond this, why histories cannot be read, are counted.
const UNREADABLE_MAX: usize = 5;

pub struct Style {
    /// Draw every call, also equal neighbors.
    pub expanded: bool,
    pub rows_max: usize,
}

/// `faults`: the plan, for naming what fired.
pub fn draw(trace: &Trace, faults: &[Fault], style: &Style) -> String {
    let mut out = String::new();
    let entry = &trace.entry;
    let total = entry.ended_us.unwrap_or(1).max(1);
    let mut drawer = Drawer { out: &mut out, faults, style, total, rows: 0, left_out: 0 };
    drawer.row("", std::slice::from_ref(entry), 0);
    drawer.calls(entry.calls(), "", offset(entry, 0));
    let left_out = drawer.left_out;
    if left_out > 0 {
        let _ = writeln!(out, "… {} more calls (--all draws them)", grouped(left_out as u64));
    }
    unreadable(trace, &mut out);
    out
}

/// Which histories could not be read, and why.
fn unreadable(trace: &Trace, out: &mut String) {
    let calls = trace.unreadable();
    for call in calls.iter().take(UNREADABLE_MAX) {
        let (callee, label) = (printable(&call.callee), printable(call.label()));
        let why = printable(call.unreadable.as_deref().unwrap_or_default());
        let _ =
            writeln!(out, "the history of {callee} for {label} of {} cannot be read: {why}", printable(&call.caller));
    }
    if calls.len() > UNREADABLE_MAX {
        let _ = writeln!(out, "{} more histories cannot be read", grouped((calls.len() - UNREADABLE_MAX) as u64));
    }
}

/// Where the callee's scope begins inside the caller's bar. Clocks of different services are never compared, so the
/// scope is centered in the time that the caller waited.
fn offset(call: &Call, base: u64) -> u64 {
    let waited = call.duration_us().unwrap_or(0);
    let worked = call.scope.as_ref().and_then(|s| s.answered_us).unwrap_or(waited);
    base + call.sent_us + waited.saturating_sub(worked) / 2
}

struct Drawer<'a> {
    out: &'a mut String,
    faults: &'a [Fault],
    style: &'a Style,
    total: u64,
    rows: usize,
    left_out: usize,
}

impl Drawer<'_> {
    fn calls(&mut self, calls: &[Call], indent: &str, base: u64) {
        let mut i = 0;
        while i < calls.len() {
            let same =
                if self.style.expanded { 1 } else { calls[i..].iter().take_while(|c| alike(c, &calls[i])).count() };
            let group = &calls[i..i + same];
            i += same;
            let last = i == calls.len();
            if self.rows >= self.style.rows_max {
                self.left_out += same;
                continue;
            }
            self.row(&format!("{indent}{}", if last { "└─ " } else { "├─ " }), group, base);
            let below = format!("{indent}{}", if last { "   " } else { "│  " });
            if group.iter().any(|c| !c.calls().is_empty()) {
                // equal neighbors have equal calls, so those of the first are drawn
                self.calls(group[0].calls(), &below, offset(&group[0], base));
            }
        }
    }

    fn row(&mut self, prefix: &str, group: &[Call], base: u64) {
        self.rows += 1;
        let call = &group[0];
        let times = if group.len() > 1 { format!(" ×{}", group.len()) } else { String::new() };
        let label = fit(&format!("{prefix}{}{times}", printable(call.label())), LABEL);
        let us: u64 = group.iter().filter_map(Call::duration_us).sum();
        let time = if group.iter().any(|c| c.ended_us.is_some()) { milliseconds(us) } else { "–".into() };
        let begin = base + call.sent_us;
        let end = group.iter().filter_map(|c| c.ended_us).max().map_or(begin, |e| base + e);
        let mut line = format!(
            "{label} {} {time:>9}  {:<8} {}",
            fit(&printable(&call.callee), CALLEE),
            outcome(call),
            self.bar(begin, end)
        );
        let marks = self.marks(group);
        if !marks.is_empty() {
            let _ = write!(line, " {marks}");
        }
        self.out.push_str(line.trim_end());
        self.out.push('\n');
    }

    fn bar(&self, begin: u64, end: u64) -> String {
        let at = |us: u64| ((us.min(self.total) * BAR as u64) / self.total) as usize;
        let (from, to) = (at(begin).min(BAR - 1), at(end).max(at(begin) + 1).min(BAR));
        (0..BAR).map(|i| if i >= from && i < to { '▇' } else { '·' }).collect()
    }

    fn marks(&self, group: &[Call]) -> String {
        let mut marks = Vec::new();
        if let Some(i) = group[0].fault {
            let fault = self.faults.get(i).map_or_else(|| format!("fault {i}"), |f| f.kind.as_str().to_owned());
            marks.push(format!("⚡ {fault}"));
        }
        if group.iter().any(|c| c.unreadable.is_some()) {
            marks.push("gap: unreadable history".into());
        } else if group.iter().any(|c| c.gap) {
            marks.push("gap".into());
        }
        if group.iter().any(|c| c.scope.as_ref().is_some_and(|s| s.truncated)) {
            marks.push("truncated".into());
        }
        marks.join(" ")
    }
}

fn alike(a: &Call, b: &Call) -> bool {
    a.callee == b.callee
        && a.label() == b.label()
        && a.outcome == b.outcome
        && a.fault == b.fault
        && a.gap == b.gap
        && a.unreadable == b.unreadable
        && a.calls().len() == b.calls().len()
}

/// Cut or padded to `width` characters.
fn fit(text: &str, width: usize) -> String {
    let n = text.chars().count();
    if n <= width {
        format!("{text}{}", " ".repeat(width - n))
    } else {
        text.chars().take(width - 1).chain(['…']).collect()
    }
}
