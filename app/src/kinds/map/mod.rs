//! Maps: dependencies between processes, as observed over a range of time.

mod beside;
mod changed_since;
mod draw;
mod part;
mod source;

pub use beside::{BesideSpec, ComparedRun, beside};
pub use changed_since::{ChangedMap, ChangedSinceSpec, changed_since};
pub use draw::{DrawnMap, MapSpec, draw};
pub use part::MapDirection;
pub use source::{HostQuery, Observed, Observing, Range, Source, range_text};

use crate::kind::{Difference, Names, RunKind, Selection, StoredRun, Traces};
use crate::view::{Block, View};
use crate::{Context, register_kind};
use flows::Graph;
use model::{Failure, KindName, Run};
use report::view::{Audience, Head, MapView, RunView};
use report::{MapReport, map_html};
use serde_json::json;

pub const NAME: KindName = KindName::new("map");
const GRAPH: &str = "graph.json";

struct Map;
register_kind!(Map);

fn graph(stored: &StoredRun) -> Result<Graph, Failure> {
    stored.dir.read_json(GRAPH)
}

impl RunKind for Map {
    fn name(&self) -> KindName {
        NAME
    }

    fn noun(&self) -> &'static str {
        "a map"
    }

    fn summarize(&self, run: &Run) -> String {
        let number = |key: &str| run.summary[key].as_u64();
        match (number("nodes"), number("edges")) {
            (Some(nodes), Some(edges)) => format!("{nodes} nodes, {edges} edges"),
            _ => String::new(),
        }
    }

    fn load(&self, _context: &Context, stored: &StoredRun) -> Result<View, Failure> {
        let graph = graph(stored)?;
        Ok(View::new(json!({"graph": graph}), vec![Block::Graph(graph)]))
    }

    fn diff(&self, _context: &Context, before: &StoredRun, after: &StoredRun) -> Result<Difference, Failure> {
        let (before, after) = (graph(before)?, graph(after)?);
        let changes = map::changes(&before, &after);
        let fields = json!({"differences": changes.len(), "changes": changes});
        let differs = !changes.is_empty();
        let total = format!("{} different", changes.len());
        let blocks = vec![Block::GraphChanges { before, after, changes }, Block::Line(total)];
        Ok(Difference { differs, view: View::new(fields, blocks) })
    }

    fn run_view(&self, _context: &Context, stored: &StoredRun, audience: Audience) -> Result<RunView, Failure> {
        let report = MapReport { run: &stored.run, graph: &graph(stored)? };
        Ok(MapView::of(&report, Head { audience, summary: self.summarize(&stored.run) }))
    }

    fn report(&self, _context: &Context, stored: &StoredRun, _names: Names) -> Result<String, Failure> {
        Ok(map_html(&MapReport { run: &stored.run, graph: &graph(stored)? }))
    }

    fn traces(&self, context: &Context, stored: &StoredRun, _selection: Selection) -> Result<Traces, Failure> {
        Err(Failure::request(format!("run {} is a map: it has no trace", stored.run.id.short()))
            .next(format!("{} --dot or --mermaid writes a map for other tools", context.command("map"))))
    }
}
