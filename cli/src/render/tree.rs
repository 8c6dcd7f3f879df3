//! A trace as a tree with timing bars. Equal neighbors are drawn as one row, `Convert ×10`.

use app::text::{grouped, milliseconds, outcome, plural, printable};
use model::Fault;
use model::short_names::{ShortNames, padded, width};
use model::trace::{Call, GapReason, Trace};
use std::collections::HashMap;
use std::fmt::Write;

/// The first column: lines of the tree, the name of the call, how often it was repeated.
const LABEL: usize = 42;
/// Deep levels make the first column wider, so that this much of a name can be shown.
const NAME_MIN: usize = 20;
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
    let mut drawer = Drawer { out: &mut out, faults, style, total, left_out: 0 };
    let rows = drawer.rows(entry);
    drawer.draw(&rows);
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
    left_out: usize,
}

/// Calls that are drawn together.
struct Row<'a> {
    prefix: String,
    group: &'a [Call],
    base: u64,
}

impl Row<'_> {
    fn times(&self) -> String {
        if self.group.len() > 1 { format!(" ×{}", self.group.len()) } else { String::new() }
    }

    fn name(&self) -> String {
        printable(self.group[0].label())
    }

    /// Columns for the name if the first column has `label` columns.
    fn name_width(&self, label: usize) -> usize {
        label - width(&self.prefix) - width(&self.times())
    }
}

/// Calls of one scope that are still to be drawn.
struct Siblings<'a> {
    calls: &'a [Call],
    indent: String,
    base: u64,
}

impl Drawer<'_> {
    fn rows<'a>(&mut self, entry: &'a Call) -> Vec<Row<'a>> {
        let mut rows = vec![Row { prefix: String::new(), group: std::slice::from_ref(entry), base: 0 }];
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
            if rows.len() >= self.style.rows_max {
                self.left_out += group.iter().map(count).sum::<usize>();
                continue;
            }
            let last = rest.is_empty();
            let (indent, base) = (indent.clone(), *base);
            rows.push(Row { prefix: format!("{indent}{}", if last { "└─ " } else { "├─ " }), group, base });
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
        rows
    }

    fn draw(&mut self, rows: &[Row]) {
        let needed = |row: &Row| width(&row.prefix) + width(&row.name()).min(NAME_MIN) + width(&row.times());
        let label = rows.iter().map(needed).fold(LABEL, usize::max);
        // names are compared with those that have the same space
        let mut names: HashMap<usize, Vec<String>> = HashMap::new();
        for row in rows {
            names.entry(row.name_width(label)).or_default().push(row.name());
        }
        let short =
            |(width, names): (usize, Vec<String>)| (width, ShortNames::new(names.iter().map(String::as_str), width));
        let names: HashMap<usize, ShortNames> = names.into_iter().map(short).collect();
        let callees: Vec<String> = rows.iter().map(|row| printable(&row.group[0].callee)).collect();
        let callees = ShortNames::new(callees.iter().map(String::as_str), CALLEE);
        for row in rows {
            let name = names[&row.name_width(label)].get(&row.name());
            let first = padded(&format!("{}{name}{}", row.prefix, row.times()), label);
            let callee = padded(&callees.get(&printable(&row.group[0].callee)), CALLEE);
            self.line(&format!("{first} {callee}"), row);
        }
    }

    fn line(&mut self, columns: &str, row: &Row) {
        let Row { group, base, .. } = row;
        let call = &group[0];
        let us = group.iter().filter_map(Call::duration_us).fold(0, u64::saturating_add);
        let time = if group.iter().any(|c| c.ended_us.is_some()) { milliseconds(us) } else { "–".into() };
        let begin = base.saturating_add(call.sent_us);
        let end = group.iter().filter_map(|c| c.ended_us).max().map_or(begin, |e| base.saturating_add(e));
        let mut line = format!("{columns} {time:>9}  {:<8} {}", outcome(call), self.bar(begin, end));
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
        let connect_us = group.iter().filter_map(|call| call.connect_us).fold(0, u64::saturating_add);
        if connect_us > 0 {
            marks.push(format!("(connect {})", milliseconds(connect_us)));
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use model::trace::{Outcome, Protocol, Scope};

    fn call(name: &str, callee: &str, calls: Vec<Call>) -> Call {
        let scope = Scope {
            service: callee.into(),
            name: String::new(),
            start_us: 0,
            answered_us: Some(900),
            status: Some(0),
            truncated: false,
            faults_off: false,
            unscoped: Vec::new(),
            calls,
        };
        Call {
            id: name.into(),
            number: 1,
            caller: "web".into(),
            callee: callee.into(),
            name: name.into(),
            peer: callee.into(),
            protocol: Protocol::Grpc,
            sent_us: 0,
            ended_us: Some(1000),
            outcome: Outcome::Replied { status: 0 },
            fault: None,
            inherited: false,
            connect_us: None,
            gap: false,
            unreadable: None,
            scope: Some(Box::new(scope)),
        }
    }

    /// The bar ends the columns, so they are aligned with and without a time for the connection.
    #[test]
    fn the_time_for_connections_is_shown_behind_the_bar() {
        let connecting = |us| Call { connect_us: Some(us), ..call("/a.B/C", "b", Vec::new()) };
        let calls = vec![connecting(300), connecting(400), call("/a.B/D", "b", Vec::new())];
        let trace = Trace { trace_id: "1".into(), entry: call("GET /", "web", calls) };
        let drawn = draw(&trace, &[], &Style { expanded: false, rows_max: ROWS_MAX });
        let lines: Vec<&str> = drawn.lines().collect();
        assert!(lines[1].contains("C ×2") && lines[1].ends_with(" (connect 0.7 ms)"), "{drawn}");
        assert!(!lines[2].contains("connect"), "{drawn}");
        let bar = |line: &str| line.find(['▇', '·']).map(|at| width(&line[..at]));
        assert_eq!(bar(lines[1]), bar(lines[2]), "{drawn}");
    }

    /// Paths of equal length that differ only in the middle, 14 levels deep, with wide characters.
    #[test]
    fn different_names_look_different_and_columns_are_aligned() {
        let names =
            ["/shop.v1.ProductCatalog/価格ByCategoryAndRegion", "/shop.v1.ProductCatalog/価格OfCategoryAndRegion"];
        let services = ["recommendation-service-a-1", "recommendation-service-b-1"];
        let siblings = || names.iter().zip(services).map(|(name, service)| call(name, service, Vec::new())).collect();
        let deepest = (0..13).fold(siblings(), |below, _| vec![call(names[0], services[0], below)]);
        let trace = Trace { trace_id: "1".into(), entry: call("GET /", "web", deepest) };
        let drawn = draw(&trace, &[], &Style { expanded: true, rows_max: ROWS_MAX });
        let lines: Vec<&str> = drawn.lines().collect();
        assert_eq!(lines.len(), 16, "{drawn}");
        let bar = |line: &str| line.find(['▇', '·']).map(|at| width(&line[..at]));
        assert!(lines.iter().all(|line| bar(line) == bar(lines[0])), "{drawn}");
        let name = |line: &str| line.split("─ ").nth(1).map(|rest| rest.split("  ").next().unwrap_or("").to_owned());
        assert_ne!(name(lines[14]), name(lines[15]), "{drawn}");
        let callee = |line: &str| line.split_whitespace().find(|word| word.starts_with("recomm")).map(str::to_owned);
        assert_ne!(callee(lines[14]), callee(lines[15]), "{drawn}");
    }
}
