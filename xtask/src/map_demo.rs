//! The agent that runs during the demo, for the map.

use crate::shell::{built, command, quiet};
use std::fs::File;
use std::path::Path;
use std::process::Child;

/// Maximum run time, longer than any demo.
const RUN_TIME_MAX: &str = "15m";

/// Stopped on drop.
pub struct DemoAgent {
    agent: Option<Child>,
    state: String,
}

impl DemoAgent {
    /// Starts an agent with its state and log in `directory`. Uses its own lock, so it can run beside the host's agent.
    pub fn start(directory: &Path) -> DemoAgent {
        let state = directory.to_string_lossy().into_owned();
        let lock = format!("faultloom-demo-{}", std::process::id());
        let log = std::fs::create_dir_all(directory).and_then(|()| File::create(directory.join("agent.log")));
        let started = log.and_then(|log| {
            command(&built("faultloom"), &["agent", "--state", &state, "--lock", &lock, "--for", RUN_TIME_MAX])
                .stdout(log.try_clone()?)
                .stderr(log)
                .spawn()
        });
        DemoAgent { agent: started.ok(), state }
    }

    /// Stops the agent and returns its state directory; none if it failed.
    pub fn stop(&mut self) -> Option<String> {
        let mut agent = self.agent.take()?;
        let is_running = matches!(agent.try_wait(), Ok(None));
        let signaled = quiet(&mut command("kill", &["-TERM", &agent.id().to_string()]));
        if signaled.is_err() {
            let _ = agent.kill();
        }
        let ended = agent.wait().is_ok_and(|status| status.success());
        (is_running && ended).then(|| self.state.clone())
    }
}

impl Drop for DemoAgent {
    fn drop(&mut self) {
        if let Some(agent) = &mut self.agent {
            let _ = agent.kill();
            let _ = agent.wait();
        }
    }
}
