//! A run or a comparison in a terminal: one function per block.

use super::tree::{self, Style};
use super::{bugs, flip, flip_story, live, map};
use app::text::{grouped, plural, printable, seconds, time};
use app::view::{Block, Change, Mark, Table};
use model::campaign::Campaign;
use model::short_names::{ShortNames, padded, width};
use model::sweep::Space;
use model::trace::Trace;
use model::{Fault, Run};

/// Requests that are drawn without `--all`.
const TRACES_MAX: usize = 3;
/// Injections that are listed per variant without `--all`.
const STORIES_MAX: usize = 3;
/// Minimum and maximum width of the first column of a list of changes.
const SUBJECT: std::ops::RangeInclusive<usize> = 10..=52;

/// `pass`, `fail`, `unknown` or `unfinished`.
pub fn state(run: &Run) -> &'static str {
    run.verdict.map_or("unfinished", |verdict| verdict.as_str())
}

/// The run in a line.
pub fn head(run: &Run) {
    println!("{}  {}  {}  {}  {}", run.id.short(), run.kind, state(run), time(run.begin_ms), run.title);
}

/// `all`: without limits on what is drawn.
pub fn print(blocks: &[Block], all: bool) {
    for block in blocks {
        match block {
            Block::Line(line) => println!("{}", printable(line)),
            Block::Table(content) => print!("{}", table(content)),
            Block::Traces { traces: drawn, faults } => traces(drawn, faults, all),
            Block::Spaces(found) => found.iter().for_each(|space| println!("{}", space_line(space))),
            Block::Bugs { bugs: found, unexplained } => println!("\n{}", bugs::draw(found, unexplained)),
            Block::Graph(graph) => {
                print!("\n{}", map::table(graph, if all { usize::MAX } else { map::ROWS_MAX }));
                println!("{}", map::sizes(graph));
            }
            Block::GraphChanges { before, after, changes } => print!("{}", map::differences(before, after, changes)),
            Block::Campaign { campaign: content, doubts } => campaign(content, doubts, all),
            Block::Changes(list) => changes(list),
        }
    }
}

fn table(table: &Table) -> String {
    let rows: Vec<Vec<String>> = std::iter::once(&table.columns)
        .chain(&table.rows)
        .map(|row| row.iter().map(|cell| printable(cell)).collect())
        .collect();
    let column = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| width(cell)).max();
    let mut out = String::new();
    for row in &rows {
        let cells = row.iter().enumerate().map(|(i, cell)| padded(cell, column(i).unwrap_or(0)));
        out.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        out.push('\n');
    }
    out
}

fn traces(traces: &[Trace], faults: &[Fault], all: bool) {
    let style = Style { expanded: all, rows_max: if all { usize::MAX } else { tree::ROWS_MAX } };
    for trace in traces.iter().take(if all { usize::MAX } else { TRACES_MAX }) {
        println!("\n{}", tree::draw(trace, faults, &style));
    }
    if !all && traces.len() > TRACES_MAX {
        println!("… and {} (--all shows them)", plural((traces.len() - TRACES_MAX) as u64, "more request"));
    }
}

fn space_line(space: &Space) -> String {
    format!(
        "{:<14} {:>7} cases {:>7} failures {:>5} unknown   {:>3} behaviors   {}",
        space.name,
        grouped(space.cases),
        grouped(space.failures),
        grouped(space.unknown),
        grouped(space.behaviors),
        seconds(space.seconds)
    )
}

fn campaign(campaign: &Campaign, doubts: &[String], all: bool) {
    if let Some((variant, process)) = live::of(campaign) {
        print!("\n{}", live::text(campaign, variant, process, doubts, all));
        return;
    }
    for variant in &campaign.variants {
        println!(" {}", flip::sentence(variant));
    }
    println!("\n{}", flip::all(campaign));
    flip::remarks(campaign, doubts).iter().for_each(|line| println!(" {line}"));
    for variant in &campaign.variants {
        for story in variant.stories.iter().take(if all { usize::MAX } else { STORIES_MAX }) {
            println!("\n {}\n{}", variant.name, flip_story::story(story));
        }
    }
}

fn changes(changes: &[Change]) {
    let subjects: Vec<String> = changes.iter().map(|change| printable(&change.subject)).collect();
    let longest = subjects.iter().map(|subject| width(subject)).max().unwrap_or(0);
    let column = longest.clamp(*SUBJECT.start(), *SUBJECT.end());
    let subjects = ShortNames::new(subjects.iter().map(String::as_str), column);
    for change in changes {
        let mark = match change.mark {
            Mark::Same => ' ',
            Mark::Different => '≠',
            Mark::Removed => '−',
            Mark::Added => '+',
        };
        let outcome = match (&change.before, &change.after) {
            (Some(before), Some(after)) => format!("{before} → {after}"),
            (Some(only), None) | (None, Some(only)) => only.clone(),
            (None, None) => String::new(),
        };
        let injected = if change.injected { "  ⚡ injected" } else { "" };
        let subject = padded(&subjects.get(&printable(&change.subject)), column);
        println!("{mark} {subject} {}{injected}", printable(&outcome));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_a_table_are_aligned() {
        let text = |cells: &[&str]| cells.iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>();
        let content =
            Table { columns: text(&["name", "count"]), rows: vec![text(&["a longer name", "1"]), text(&["b", "22"])] };
        assert_eq!(table(&content), "name           count\na longer name  1\nb              22\n");
    }
}
