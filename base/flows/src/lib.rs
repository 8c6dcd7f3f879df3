//! What depends on what: hosts, processes, services, listeners, and the flows between them.
//!
//! Pure data, shared by who collects it (`observe/sockets`), who keeps it (`base/flowdb`) and who draws it (`study/map`).
//! A flow is what one end saw. Both ends of a connection describe it by the same [`Link`], so that two one-sided flows are
//! paired by equality, also when they come from different hosts (Transtracer §3.1 keys flows the same way; the paper keeps
//! active and passive nodes in two tables because only passive ones have a port).

pub mod beside;
pub mod evidence;
pub mod flow;
pub mod graph;
pub mod host;
pub mod process;
pub mod service;
pub mod window;

pub use beside::{Beside, SeenBy};
pub use evidence::{Attribution, Losses, Source};
pub use flow::{Counts, Flow, Link, Listener, Passive, Protocol, Side};
pub use graph::{Edge, Graph, Node, NodeKind};
pub use host::{Host, HostAddress, HostId};
pub use process::{Instance, Process};
pub use service::{Service, ServiceKey, ServiceKind};
pub use window::{HostSlice, Seen, Slice, Window};
