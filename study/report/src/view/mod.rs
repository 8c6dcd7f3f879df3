//! The view model: a run as data, for the page, the report and programs. Numbers have their units in their names. How
//! it is drawn is up to the page.
//!
//! It has a version and a published schema (`faultloom schema run-view`). Lists that may have 10^6 entries are columns
//! of numbers, see [`column`].

mod audience;
mod behaviors;
mod bugs;
mod cases;
pub mod column;
mod comparison;
mod flips;
mod map;
mod plain;
mod recording;
mod run;
mod sweep;
mod trace;

pub use audience::Audience;
pub use behaviors::{Behavior, Latency, Outcome, SiteColumn};
pub use bugs::{BugView, UnexplainedView};
pub use cases::CaseColumns;
pub use comparison::{ComparisonView, compare};
pub use flips::{FlipStory, FlipView, TallyView, VariantView};
pub use map::{MapEdge, MapNode, MapView, SocketsView};
pub use plain::{PlainBlock, PlainView};
pub use recording::RecordingView;
pub use run::{Content, Head, Note, RunHead, RunView};
pub use sweep::{SpaceView, SweepView};
pub use trace::TraceView;

/// Version of the format. A reader refuses a newer one.
pub const VERSION: u32 = 1;
