//! Data model of the dependency map: hosts, processes, services, listeners, and the flows between them.
//!
//! Plain data, shared by the collectors (`observe/sockets`), the database (`base/flowdb`) and the map (`study/map`). A
//! flow is what one end of a connection observes. Both ends have the same [`Link`], so the flows of the two ends are
//! paired by equality, even if they come from different hosts. Transtracer §3.1 uses the same key; the paper stores
//! active and passive nodes in two tables because only passive ones have a port.

pub mod comparison;
pub mod evidence;
pub mod flow;
pub mod graph;
pub mod host;
pub mod process;
pub mod service;
pub mod window;

pub use self::process::Process;
pub use ::process::ProcessId;
pub use comparison::{Comparison, ObservedBy};
pub use evidence::{Attribution, Losses, Source, UnknownSource};
pub use flow::{Counts, Flow, FlowKey, Link, ListenAddress, Listener, Protocol, Side};
pub use graph::{Edge, Graph, Node, NodeKind};
pub use host::{Host, HostAddress, HostId};
pub use service::{Service, ServiceKey, ServiceKind};
pub use window::{HostSlice, Observation, Slice, Window};

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs, spools and databases of earlier versions contain these names.
    #[test]
    fn persisted_names_are_unchanged() {
        let text = r#"{"from":"cart","to":"ads","seen":"sockets","calls":0,"connections":2,"why":"no SDK"}"#;
        let comparison: Comparison = serde_json::from_str(text).unwrap();
        assert_eq!((comparison.observed_by, comparison.reason.as_str()), (ObservedBy::Sockets, "no SDK"));
        assert_eq!(serde_json::to_string(&comparison).unwrap(), text);
        let text = r#"{"instance":{"pid":7,"start_ticks":9},"service":"00","netns":1,"comm":"nginx"}"#;
        let process: Process = serde_json::from_str(text).unwrap();
        assert_eq!(process.id, ProcessId { pid: 7, start_ticks: 9 });
        assert_eq!(serde_json::to_string(&process).unwrap(), text);
    }

    #[test]
    fn sources_have_one_text() {
        for source in Source::ALL {
            assert_eq!(source.to_string().parse(), Ok(source));
            assert_eq!(serde_json::to_string(&source).unwrap(), format!("\"{source}\""));
        }
        assert_eq!("magic".parse::<Source>(), Err(UnknownSource));
    }
}
