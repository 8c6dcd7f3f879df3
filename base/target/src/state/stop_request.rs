//! `stop.json`: a service that another process wants to be stopped for a while. The supervisor kills it, and starts it
//! again when the request ends: its file is removed, its holder has died, or its time is over. So no service stays
//! stopped, whatever happens to the holder.

use crate::state::atomic_file::{cannot_write, private};
use crate::state::up_state::UpState;
use model::Failure;
use process::ProcessId;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

const FILE: &str = "stop.json";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopRequest {
    /// Of the `up` that it is for. The reaper removes the file by it.
    mark: String,
    pub service: String,
    holder: ProcessId,
    until_unix_ms: u64,
}

impl StopRequest {
    /// Requests a stop that ends after `limit` at the latest.
    ///
    /// # Errors
    /// Environment, if the file cannot be written: another request is in force, for example.
    pub fn write(state_dir: &Path, state: &UpState, service: &str, limit: Duration) -> Result<(), Failure> {
        let path = file(state_dir);
        let request = StopRequest {
            mark: state.mark.clone(),
            service: service.to_owned(),
            holder: ProcessId::current(),
            until_unix_ms: now_unix_ms() + limit.as_millis() as u64,
        };
        let text = serde_json::to_string(&request).map_err(|error| {
            Failure::new(model::Family::Bug, "a stop request cannot be written").why(error.to_string())
        })?;
        // not replaced by rename: a temporary file could be left behind, and half a request is none
        let opened = private().write(true).create_new(true).open(&path);
        let written = opened.and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(|error| cannot_write(&path, &error))
    }

    /// The request in force. One that has ended is removed.
    pub fn current(state_dir: &Path, state: &UpState) -> Option<StopRequest> {
        let text = std::fs::read_to_string(file(state_dir)).ok()?;
        let request: StopRequest = serde_json::from_str(&text).ok()?;
        let in_force = request.mark == state.mark && request.holder.is_alive() && now_unix_ms() < request.until_unix_ms;
        if !in_force {
            StopRequest::remove(state_dir);
        }
        in_force.then_some(request)
    }

    /// Ends the request.
    pub fn remove(state_dir: &Path) {
        let _ = std::fs::remove_file(file(state_dir));
    }
}

pub(crate) fn file(state_dir: &Path) -> PathBuf {
    state_dir.join(FILE)
}

fn now_unix_ms() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |past| past.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(mark: &str) -> UpState {
        UpState {
            format: UpState::FORMAT,
            target: "t".into(),
            target_file: "/t/target.yaml".into(),
            entry: None,
            environment: "t-0000".into(),
            trust_file: "/t/trust".into(),
            mark: mark.into(),
            boot: String::new(),
            supervisor: ProcessId::current(),
            services: Vec::new(),
        }
    }

    #[test]
    fn a_request_ends_with_its_file_its_holder_its_time_and_its_up() {
        let dir = std::env::temp_dir().join(format!("faultloom-stop-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let (ours, other) = (state("a"), state("b"));
        let service = |state: &UpState| StopRequest::current(&dir, state).map(|request| request.service);
        let minute = Duration::from_secs(60);

        StopRequest::write(&dir, &ours, "currency", minute).unwrap();
        assert_eq!(service(&ours).as_deref(), Some("currency"));
        assert!(StopRequest::write(&dir, &ours, "cart", minute).is_err(), "one at a time");
        StopRequest::remove(&dir);
        assert_eq!(service(&ours), None);

        StopRequest::write(&dir, &ours, "currency", minute).unwrap();
        assert_eq!(service(&other), None, "it is for another up");
        StopRequest::write(&dir, &ours, "currency", Duration::ZERO).unwrap();
        assert_eq!(service(&ours), None, "its time is over");
        assert!(!file(&dir).exists(), "what has ended is removed");

        let dead = StopRequest {
            mark: "a".into(),
            service: "currency".into(),
            holder: ProcessId { pid: std::process::id(), start_ticks: 1 },
            until_unix_ms: u64::MAX,
        };
        std::fs::write(file(&dir), serde_json::to_string(&dead).unwrap()).unwrap();
        assert_eq!(service(&ours), None, "its holder has died");
        std::fs::remove_dir_all(dir).unwrap();
    }
}
