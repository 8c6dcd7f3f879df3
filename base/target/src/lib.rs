//! The application under study: its target file, its services as processes.
//!
//! ```no_run
//! # async fn example() -> Result<(), model::Failure> {
//! use target::{ReaperCommand, StartOptions, Supervisor, Target};
//! let target = Target::load("target.yaml")?;
//! let options = StartOptions {
//!     state_dir: ".faultloom/up".into(),
//!     kept_trust: None,
//!     sdks: target::SdkPaths::default(),
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
//! (`docs/formats/messages.md`) and `FAULTLOOM_UP`, a mark that identifies everything
//! they start when it has to end.
//!
//! Left out: containers, remote hosts, restarting by policy. Linux only: `/proc`, pidfds.

mod cleanup;
mod file;
mod health;
mod sdk;
mod state;
mod supervise;

pub use cleanup::command_guard::{CommandGuard, GuardedChild, OnWarning, TemporaryFolder};
pub use cleanup::reaper::{ReaperCommand, reaper_main};
pub use file::address::{Address, GrpcAddress, HttpAddress};
pub use file::check::{Check, StateCheck};
pub use file::target::{Service, Target};
pub use file::target_file::UNKNOWN;
pub use health::Health;
pub use process::ProcessId;
pub use sdk::{Sdk, SdkPaths};
pub use state::stop_request::StopRequest;
pub use state::trust_file::{Trust, switch_faults};
pub use state::up_state::{Down, ServiceRecord, UpState, down, is_alive, read_state};
pub use supervise::event::Event;
pub use supervise::service_process::{Condition, ExitStatus};
pub use supervise::supervisor::{Crash, OnEvent, ServiceState, StartOptions, Supervisor};
