//! Draws a request as rows: one per call, below the call that caused it, with a bar for its time. Two requests that are
//! compared have two bars per row.
//!
//! Consecutive equal calls share a row that can be opened. The number of rows is limited, and calls that failed or
//! changed are kept longest.

use crate::align::{self, Change, Node, Placed};
use crate::escape::{put, text};
use crate::services::Services;
use crate::words;
use model::trace::{GapReason, Outcome, Trace};

/// Rows in an opened row of equal calls, and bars in a closed one.
const REPEATS: usize = 60;
/// From this number on, consecutive unchanged rows are folded into one when two requests are compared.
const FOLD: usize = 7;
/// From this number of calls on, subtrees without failures or changes start closed.
const LARGE: usize = 120;

/// Calls below this level are counted instead of drawn: browsers limit the nesting of a page, and no reader follows it.
const LEVELS_MAX: usize = 100;

/// Start and end of a call, and of the callee's part of it.
type Bar = (f64, f64, Option<(f64, f64)>);

struct Timeline<'a> {
    out: String,
    services: &'a Services,
    scale: f64,
    compare: bool,
    rows: usize,
    limit: usize,
    left_out: usize,
    /// Calls of the request.
    calls: usize,
}

/// The rows of one request.
pub(crate) fn single(trace: &Trace, services: &Services, limit: usize) -> String {
    let (trace, too_deep) = trace.cut_below(LEVELS_MAX);
    draw(&align::one(&trace), services, limit, false, too_deep)
}

/// The rows of a good request merged with those of another.
pub(crate) fn difference(good: &Trace, now: &Trace, services: &Services, limit: usize) -> String {
    let ((good, good_too_deep), (now, now_too_deep)) = (good.cut_below(LEVELS_MAX), now.cut_below(LEVELS_MAX));
    draw(&align::two(&good, &now), services, limit, true, good_too_deep.max(now_too_deep))
}

/// `too_deep`: calls that are not below `root` because they are nested too deep.
fn draw(root: &Node, services: &Services, limit: usize, compare: bool, too_deep: usize) -> String {
    let mut t = Timeline {
        out: String::new(),
        services,
        scale: align::extent(root),
        compare,
        rows: 0,
        limit,
        left_out: 0,
        calls: root.below,
    };
    let end = words::duration(t.scale as u64);
    let axis = format!("<span class=ax><i>0</i><i>{end}</i></span>");
    let class = match compare {
        true => " two",
        false if has_connection(root) => " con",
        false => "",
    };
    put!(t.out, "<div class=\"tl{class}\"><div class=\"r hd\">");
    if compare {
        put!(
            t.out,
            "<span class=m>change</span><span class=c>call</span><span class=l data-k=good>{axis}<span class=t>good request</span></span><span class=l data-k=now>{axis}<span class=t>with the faults</span></span>"
        );
    } else {
        put!(t.out, "<span class=c>call</span><span class=l>{axis}<span class=t>outcome</span></span>");
    }
    t.out.push_str("</div>");
    t.row(&[root], 0, false);
    t.siblings(&root.children, 1);
    t.out.push_str("</div>");
    if t.left_out > 0 {
        put!(
            t.out,
            "<p class=note>{} not drawn, to keep this page readable; calls that failed or changed are drawn first.</p>",
            words::counted(t.left_out as u64, "call")
        );
    }
    if too_deep > 0 {
        put!(
            t.out,
            "<p class=note>{} below level {LEVELS_MAX} not drawn; the service table counts them.</p>",
            words::counted(too_deep as u64, "call")
        );
    }
    t.out
}

impl Timeline<'_> {
    fn siblings(&mut self, nodes: &[Node], depth: usize) {
        let mut groups: Vec<Vec<&Node>> = Vec::new();
        for node in nodes {
            match groups.last_mut() {
                Some(group) if group[0].shape == node.shape => group.push(node),
                _ => groups.push(vec![node]),
            }
        }
        let kinds: Vec<Option<Change>> = groups.iter().map(|g| self.uniform(g[0])).collect();
        let mut at = 0;
        while at < groups.len() {
            let alike = kinds[at..].iter().take_while(|k| k.is_some() && **k == kinds[at]).count();
            let (shown, words) = match kinds[at] {
                Some(Change::Same) => (0, "unchanged"),
                Some(Change::Missing) => (4, "also missing"),
                Some(Change::Extra) => (4, "also extra"),
                _ => (1, ""),
            };
            if alike < shown + FOLD {
                self.group(&groups[at], depth);
                at += 1;
                continue;
            }
            let (first, rest) = groups[at..at + alike].split_at(shown);
            first.iter().for_each(|g| self.group(g, depth));
            let calls: usize = rest.iter().flatten().map(|n| 1 + n.below).sum();
            put!(
                self.out,
                "<details class=g><summary><div class=\"r fold\" style=\"--d:{depth}\"><span class=m></span><span class=c><i class=tw></i>{} {words}</span></div></summary>",
                words::counted(calls as u64, "call")
            );
            rest.iter().for_each(|g| self.group(g, depth));
            self.out.push_str("</details>");
            at += alike;
        }
    }

    /// The change that a call and all calls below it have in common, when two requests are compared.
    fn uniform(&self, node: &Node) -> Option<Change> {
        match node.change {
            Change::Missing | Change::Extra => Some(node.change),
            _ if self.compare && !node.notable => Some(Change::Same),
            _ => None,
        }
    }

    /// Whether the calls below a call start hidden: none of them is notable, and the request is large.
    fn hides_calls(&self, node: &Node, depth: usize) -> bool {
        let dull = matches!(node.change, Change::Missing | Change::Extra) || (self.calls > LARGE && !node.notable);
        node.below > 0 && depth > 0 && dull && (node.below * 4 < self.calls || self.compare)
    }

    fn group(&mut self, group: &[&Node], depth: usize) {
        let first = group[0];
        if self.rows >= self.limit && (!first.notable || self.rows >= 2 * self.limit) {
            self.left_out += group.iter().map(|n| 1 + n.below).sum::<usize>();
            return;
        }
        if group.len() == 1 {
            if !self.hides_calls(first, depth) {
                self.row(group, depth, false);
                return self.siblings(&first.children, depth + 1);
            }
            self.out.push_str("<details class=g><summary>");
            self.row(group, depth, true);
            self.out.push_str("</summary>");
            self.siblings(&first.children, depth + 1);
            return self.out.push_str("</details>");
        }
        self.out.push_str("<details class=g><summary>");
        self.row(group, depth, true);
        self.out.push_str("</summary>");
        let drawn = if self.rows < self.limit { group.len().min(REPEATS) } else { 0 };
        for node in &group[..drawn] {
            self.row(&[*node], depth + 1, false);
            self.siblings(&node.children, depth + 2);
        }
        if drawn < group.len() {
            put!(
                self.out,
                "<div class=\"r fold\" style=\"--d:{}\"><span class=c>{} more like these</span></div>",
                depth + 1,
                words::count((group.len() - drawn) as u64)
            );
        }
        self.out.push_str("</details>");
    }

    /// The row of one call or of several equal ones. `opens`: it is the summary of rows below it.
    fn row(&mut self, group: &[&Node], depth: usize, opens: bool) {
        self.rows += 1;
        let first = group[0];
        let call = first.either().call;
        let service = self.services.name(call);
        let (class, mark) = match first.change {
            Change::Same => ("", ""),
            Change::Failed => (" bad", "✗ failed"),
            Change::Other => (" oth", "≠ differs"),
            Change::Missing => (" mis", "− missing"),
            Change::Extra => (" ext", "+ extra"),
        };
        put!(self.out, "<div class=\"r{class}\" style=\"--d:{depth}\">");
        if self.compare {
            put!(self.out, "<span class=m>{mark}");
            if let Some(fault) = first.now.as_ref().and_then(|p| p.call.fault) {
                put!(self.out, " <span class=fx title=\"fault {0} fired here\">↯{0}</span>", fault + 1);
            }
            self.out.push_str("</span>");
        }
        let twist = if opens { "<i class=tw></i>" } else { "" };
        put!(
            self.out,
            "<span class=c title=\"{0} · {1}\">{twist}<i class=\"k s{2}\"></i><b>{0}</b>",
            text(call.label()),
            text(service),
            self.services.color(service)
        );
        if group.len() > 1 {
            put!(self.out, " <span class=x>×{}</span>", words::count(group.len() as u64));
        }
        put!(self.out, " <span class=v>{}</span>", text(service));
        if opens && first.below > 0 {
            let each = if group.len() > 1 { " each" } else { "" };
            put!(self.out, " <span class=v>+ {}{each}</span>", words::counted(first.below as u64, "call"));
        }
        self.out.push_str("</span>");
        let color = self.services.color(service);
        let bars = |placed: &Placed| (placed.start, placed.end, placed.scope);
        let connect_us = |placed: &Placed| placed.call.connect_us.unwrap_or(0);
        let good: Vec<Bar> = group.iter().filter_map(|n| n.good.as_ref()).map(bars).collect();
        let connecting = mean(group.iter().filter_map(|n| n.good.as_ref()).map(connect_us));
        self.lane(&good, first.good.as_ref(), connecting, color, "good");
        if self.compare {
            let now: Vec<Bar> = group.iter().filter_map(|n| n.now.as_ref()).map(bars).collect();
            let connecting = mean(group.iter().filter_map(|n| n.now.as_ref()).map(connect_us));
            self.lane(&now, first.now.as_ref(), connecting, color, "now");
        }
        self.out.push_str("</div>");
    }

    /// `connect_us`: how long the calls spent on their own connections, on average.
    fn lane(&mut self, bars: &[Bar], first: Option<&Placed>, connect_us: u64, color: usize, kind: &str) {
        put!(self.out, "<span class=l data-k={kind}><span class=b aria-hidden=true>");
        let Some(first) = first else {
            self.out.push_str("</span><span class=t></span></span>");
            return;
        };
        let call = first.call;
        let share = |v: f64| (v / self.scale * 1000.0).clamp(0.0, 1000.0).round() / 10.0;
        let (class, word) = match (words::failed(call), call.outcome) {
            (_, Outcome::Open) => (" op", "op"),
            (true, _) => (" e", "ko"),
            (false, _) => ("", "ok"),
        };
        for (start, end, scope) in bars.iter().take(REPEATS) {
            put!(
                self.out,
                "<i class=\"s{color}{class}\" style=\"left:{}%;width:{}%\"></i>",
                share(*start),
                share(end - start)
            );
            if let Some((begin, end)) = scope.filter(|_| class.is_empty()) {
                put!(
                    self.out,
                    "<i class=\"s{color} n\" style=\"left:{}%;width:{}%\"></i>",
                    share(begin),
                    share(end - begin)
                );
            }
        }
        if bars.len() > REPEATS {
            let (start, end) = (bars[REPEATS].0, bars.iter().map(|b| b.1).fold(0.0, f64::max));
            put!(self.out, "<i class=s{color} style=\"left:{}%;width:{}%\"></i>", share(start), share(end - start));
        }
        put!(self.out, "</span><span class=t><span class=du>");
        if call.ended_us.is_some() {
            let mean = bars.iter().map(|b| b.1 - b.0).sum::<f64>() / bars.len().max(1) as f64;
            put!(
                self.out,
                "{}{}",
                if bars.len() > 1 { "<i title=\"on average\">⌀</i> " } else { "" },
                words::duration(mean as u64)
            );
        }
        put!(self.out, "</span> <b class={word} title=\"{0}\">{0}</b>", text(&words::outcome(call)));
        if connect_us > 0 {
            let what = "of its time; name resolution, connecting and TLS";
            put!(self.out, " <span title=\"{what}\">(connect {})</span>", words::duration(connect_us));
        }
        if let Some(fault) = call.fault.filter(|_| !self.compare) {
            put!(self.out, " <span class=fx title=\"fault {} fired here\">↯{}</span>", fault + 1, fault + 1);
        }
        if call.inherited {
            let why = "its context belonged to no request; its thread or task was started by this one";
            put!(self.out, " <span class=gp title=\"{why}\">inherited</span>");
        }
        for reason in call.gap_reasons() {
            let word = match reason {
                GapReason::Truncated => "truncated",
                GapReason::Unscoped { .. } => "incomplete",
                _ => "gap",
            };
            put!(self.out, " <span class=gp title=\"{}\">◌ {word}</span>", text(&reason.to_string()));
        }
        self.out.push_str("</span></span>");
    }
}

/// Whether a call below shows the time for its connection.
fn has_connection(node: &Node) -> bool {
    node.either().call.connect_us.is_some() || node.children.iter().any(has_connection)
}

/// 0 without values.
fn mean(values: impl Iterator<Item = u64>) -> u64 {
    let (sum, count) = values.fold((0, 0), |(sum, count): (u64, u64), value| (sum.saturating_add(value), count + 1));
    sum.checked_div(count).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shop;

    fn services(trace: &Trace) -> Services {
        Services::of([trace].into_iter())
    }

    fn wide(n: usize) -> Trace {
        let mut trace = shop::good();
        let scope = trace.entry.scope.as_mut().unwrap();
        let call = scope.calls[3].clone();
        scope.calls = (0..n)
            .map(|i| {
                let mut call = call.clone();
                call.sent_us = i as u64 * 1_000;
                call.ended_us = Some(call.sent_us + 900);
                call
            })
            .collect();
        trace
    }

    #[test]
    fn equal_neighbors_share_a_row() {
        let trace = shop::good();
        let html = single(&trace, &services(&trace), 600);
        assert!(html.contains("<b>Convert</b> <span class=x>×10</span>"));
        assert_eq!(html.matches("<div").count(), html.matches("</div").count());
        assert_eq!(html.matches("<details").count(), html.matches("</details").count());
    }

    #[test]
    fn five_thousand_equal_calls_are_one_row() {
        let trace = wide(5_000);
        let html = single(&trace, &services(&trace), 600);
        assert!(html.contains("×5,000") && html.contains("4,940 more like these"));
        assert!(html.len() < 60_000, "{}", html.len());
    }

    #[test]
    fn of_five_thousand_different_calls_the_failed_one_is_drawn() {
        let mut trace = wide(5_000);
        for (i, call) in trace.entry.scope.as_mut().unwrap().calls.iter_mut().enumerate() {
            call.name = format!("/shop.Currency/Convert{i}");
        }
        let last = trace.entry.scope.as_mut().unwrap().calls.last_mut().unwrap();
        last.outcome = Outcome::Failed { status: 14 };
        let html = single(&trace, &services(&trace), 600);
        assert!(html.contains("Convert4999") && html.contains("✗ unavailable"));
        assert!(html.contains("4,400 calls not drawn"), "{}", &html[html.len() - 200..]);
        assert!(html.len() < 400_000, "{}", html.len());
    }

    #[test]
    fn gaps_faults_and_open_calls_are_marked_in_words() {
        let trace = shop::checkout();
        let html = single(&trace, &services(&trace), 600);
        for mark in ["◌ gap", "↯1", "… open", "402", "✗ unavailable"] {
            assert!(html.contains(mark), "{mark}");
        }
    }

    #[test]
    fn the_time_for_connections_is_shown() {
        let mut trace = wide(3);
        for (call, us) in trace.entry.scope.as_mut().unwrap().calls.iter_mut().zip([600, 0, 300]) {
            call.connect_us = Some(us).filter(|us| *us > 0);
        }
        let html = single(&trace, &services(&trace), 600);
        for shown in ["(connect 300 µs)</span>", "(connect 600 µs)</span>", "<div class=\"tl con\">"] {
            assert!(html.contains(shown), "{html}");
        }
        assert_eq!(html.matches("(connect").count(), 3, "of all, of the first and of the third");
    }

    #[test]
    fn unchanged_stretches_fold_when_compared() {
        let mut trace = wide(20);
        for (i, call) in trace.entry.scope.as_mut().unwrap().calls.iter_mut().enumerate() {
            call.name = format!("Convert{i}");
        }
        let html = difference(&trace, &trace, &services(&trace), 300);
        assert!(html.contains("20 calls unchanged"));
    }

    fn nested(branches: usize) -> Trace {
        let mut trace = wide(branches);
        for (i, call) in trace.entry.scope.as_mut().unwrap().calls.iter_mut().enumerate() {
            call.name = format!("Branch{i}");
            let inner = call.clone();
            call.scope.as_mut().unwrap().calls = vec![inner];
        }
        trace
    }

    #[test]
    fn a_large_request_starts_with_its_subtrees_closed() {
        let trace = nested(100);
        let html = single(&trace, &services(&trace), 600);
        assert_eq!(html.matches("<span class=v>+ 1 call</span>").count(), 100);
        let small = nested(20);
        assert!(!single(&small, &services(&small), 600).contains("<details"));
    }

    #[test]
    fn many_missing_calls_are_reported_once() {
        let (good, mut now) = (nested(100), nested(100));
        now.entry.scope.as_mut().unwrap().calls.truncate(10);
        let html = difference(&good, &now, &services(&good), 300);
        assert!(html.contains("172 calls also missing"), "{html}");
        assert_eq!(html.matches("<details").count(), html.matches("</details").count());
    }
}
