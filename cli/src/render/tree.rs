//! A trace as a tree with timing bars. Equal neighbors are drawn as one row, `Convert ×10`.

use app::text::{grouped, milliseconds, outcome, plural, printable};
use model::Fault;
use model::trace::{Call, GapReason, Trace};
use std::fmt::Write;

const LABEL: usize = 42;
const CALLEE: usize = 16;
const BAR: usize = 18;

/// Rows beyond this are counted instead of drawn.
pub const ROWS_MAX: usize = 400;
/// Deeper levels have their number instead of lines to their left: imported traces may have thousands of levels.
const INDENTED_LEVELS: usize = 12;

/// Reasons of gaps beyond this are counted.
const REASONS_MAX: usize = 5;

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
    drawer.below(entry);
    let left_out = drawer.left_out;
    if left_out > 0 {
        let _ = writeln!(out, "… {} more calls (--all draws them)", grouped(left_out as u64));
    }
    reasons(trace, &mut out);
    out
}

/// Which histories cannot be read, and which calls belonged to no request. The marks in the tree say what else is
/// missing.
fn reasons(trace: &Trace, out: &mut String) {
    let gaps = trace.gaps_with_reasons();
    let lines: Vec<String> = gaps
        .iter()
        .filter_map(|gap| {
            let (caller, callee, call) = (printable(&gap.caller), printable(&gap.callee), printable(&gap.call));
            match &gap.reason {
                GapReason::Unreadable(why) => {
                    let why = printable(why);
                    Some(format!("the history of {callee} for {call} of {caller} cannot be read: {why}"))
                }
                GapReason::Unscoped { .. } => Some(format!("incomplete: {}", printable(&gap.reason.to_string()))),
                _ => None,
            }
        })
        .collect();
    for line in lines.iter().take(REASONS_MAX) {
        let _ = writeln!(out, "{line}");
    }
    if lines.len() > REASONS_MAX {
        let _ = writeln!(out, "{} more gaps of these kinds", grouped((lines.len() - REASONS_MAX) as u64));
    }
}

/// What a mark in the tree says about a gap.
fn gap_mark(reason: &GapReason) -> String {
    match reason {
        GapReason::Unreadable(_) => "gap: unreadable history".into(),
        GapReason::NoHistory => "gap: no history".into(),
        GapReason::Failed => "gap: no reply".into(),
        GapReason::Open => "gap: not ended".into(),
        GapReason::Truncated => "truncated".into(),
        GapReason::Unscoped { calls, .. } => {
            let count = calls.iter().fold(0u64, |sum, calls| sum.saturating_add(calls.count));
            format!("incomplete: {} of no request", plural(count, "call"))
        }
    }
}

/// Where the callee's scope begins inside the caller's bar. Clocks of different services are never compared, so the
/// scope is centered in the time that the caller waited. Imported times may be huge, and so are sums over many levels.
fn offset(call: &Call, base: u64) -> u64 {
    let waited = call.duration_us().unwrap_or(0);
    let worked = call.scope.as_ref().and_then(|s| s.answered_us).unwrap_or(waited);
    base.saturating_add(call.sent_us).saturating_add(waited.saturating_sub(worked) / 2)
}

struct Drawer<'a> {
    out: &'a mut String,
    faults: &'a [Fault],
    style: &'a Style,
    total: u64,
    rows: usize,
    left_out: usize,
}

/// Calls of one scope that are still to be drawn.
struct Siblings<'a> {
    calls: &'a [Call],
    indent: String,
    base: u64,
}

impl Drawer<'_> {
    fn below(&mut self, entry: &Call) {
        let mut open = vec![Siblings { calls: entry.calls(), indent: String::new(), base: offset(entry, 0) }];
        while let Some(Siblings { calls, indent, base }) = open.last_mut() {
            let siblings: &[Call] = calls;
            let Some(first) = siblings.first() else {
                open.pop();
                continue;
            };
            let same = if self.style.expanded { 1 } else { siblings.iter().take_while(|c| alike(c, first)).count() };
            let (group, rest) = siblings.split_at(same);
            *calls = rest;
            if self.rows >= self.style.rows_max {
                self.left_out += group.iter().map(count).sum::<usize>();
                continue;
            }
            let last = rest.is_empty();
            let (indent, base) = (indent.clone(), *base);
            self.row(&format!("{indent}{}", if last { "└─ " } else { "├─ " }), group, base);
            if group.iter().any(|c| !c.calls().is_empty()) {
                let level = open.len();
                let indent = match level {
                    ..INDENTED_LEVELS => format!("{indent}{}", if last { "   " } else { "│  " }),
                    _ => format!("… {} ", level + 1),
                };
                // equal neighbors have equal calls, so those of the first are drawn
                open.push(Siblings { calls: group[0].calls(), indent, base: offset(&group[0], base) });
            }
        }
    }

    fn row(&mut self, prefix: &str, group: &[Call], base: u64) {
        self.rows += 1;
        let call = &group[0];
        let times = if group.len() > 1 { format!(" ×{}", group.len()) } else { String::new() };
        let label = fit(&format!("{prefix}{}{times}", printable(call.label())), LABEL);
        let us = group.iter().filter_map(Call::duration_us).fold(0, u64::saturating_add);
        let time = if group.iter().any(|c| c.ended_us.is_some()) { milliseconds(us) } else { "–".into() };
        let begin = base.saturating_add(call.sent_us);
        let end = group.iter().filter_map(|c| c.ended_us).max().map_or(begin, |e| base.saturating_add(e));
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
        if group[0].inherited {
            marks.push("inherited".into());
        }
        // equal neighbors may have been truncated differently
        for mark in group.iter().flat_map(Call::gap_reasons).map(|reason| gap_mark(&reason)) {
            if !marks.contains(&mark) {
                marks.push(mark);
            }
        }
        marks.join(" ")
    }
}

/// A call and all calls below it.
fn count(call: &Call) -> usize {
    let (mut open, mut count) = (vec![call], 0);
    while let Some(call) = open.pop() {
        count += 1;
        open.extend(call.calls());
    }
    count
}

fn alike(a: &Call, b: &Call) -> bool {
    a.callee == b.callee
        && a.label() == b.label()
        && a.outcome == b.outcome
        && a.fault == b.fault
        && a.gap == b.gap
        && a.inherited == b.inherited
        && a.unreadable == b.unreadable
        && a.scope.as_ref().map(|scope| &scope.unscoped) == b.scope.as_ref().map(|scope| &scope.unscoped)
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
