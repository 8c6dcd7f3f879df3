//! The use cases of Faultloom: a serializable spec in, typed events out, a run as the result.
//!
//! Nothing here parses arguments, prints, or depends on a terminal. The command line is one front end; others call the
//! same functions.

mod body;
pub mod cancel;
pub mod checks;
pub mod context;
pub mod doctor;
pub mod draft;
pub mod entry_points;
pub mod event;
pub mod external_names;
pub mod history;
pub mod installation;
mod installation_kubernetes;
pub mod installation_plan;
pub mod kind;
pub mod kinds;
pub mod request;
pub mod sdk_paths;
pub mod services;
pub mod snapshot;
pub mod socket_comparison;
pub mod spec;
pub mod status_files;
pub mod target_session;
pub mod text;
pub mod time_arg;
mod trace_diff;
pub mod view;
pub mod workbench;

pub use cancel::Cancel;
pub use context::Context;
pub use event::{Event, EventSink};
