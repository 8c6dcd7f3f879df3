//! The application under study: its target file, its services as processes.
//!
//! ```no_run
//! # async fn example() -> Result<(), model::Failure> {
//! use target::{ReaperCommand, StartOptions, Supervisor, Target};
//! let target = Target::load("target.yaml")?;
//! let options = StartOptions {
//!     state_dir: ".faultloom/up".into(),
//!     kept_trust: None,
//!     sdks: target::SdkPlaces::default(),
//!     reaper: ReaperCommand::own_binary("reaper"), // `main` calls `target::reaper_main()` for it
//!     on_event: std::sync::Arc::new(|event| eprintln!("{event}")),
//! };
//! let supervisor = Supervisor::start(target, options).await?;
//! for crash in supervisor.crashed() {
//!     supervisor.restart(&crash.service).await?;
//! }
//! supervisor.stop().await
//! # }
//! ```
//!
//! Services get `FAULTLOOM_TRUST_FILE`, `FAULTLOOM_SERVICE`, `FAULTLOOM_PEERS`, `FAULTLOOM_STATUS`
//! (`docs/formats/messages.md`) and `FAULTLOOM_UP`, a mark by which everything they start is found again when it has
//! to end.
//!
//! Left out: containers, remote hosts, restarting by policy. Linux only: `/proc`, pidfds.

mod address;
mod atomic_file;
mod ending;
mod event;
mod grpc_health;
mod health;
mod place;
mod ports;
mod process_table;
mod reaper;
mod sdk;
mod service_log;
mod service_process;
mod state;
mod status_dir;
mod supervisor;
mod target;
mod target_file;
mod trust_file;

pub use address::{Address, HttpAddress};
pub use event::Event;
pub use health::Health;
pub use process_table::ProcessId;
pub use reaper::{ReaperCommand, reaper_main};
pub use sdk::{Sdk, SdkPlaces};
pub use service_process::{Condition, ExitStatus};
pub use state::{Down, ServiceRecord, UpState, down, is_alive, read_state};
pub use supervisor::{Crash, OnEvent, ServiceState, StartOptions, Supervisor};
pub use target::{Service, Target};
pub use target_file::UNKNOWN;
pub use trust_file::{Trust, switch_faults};
