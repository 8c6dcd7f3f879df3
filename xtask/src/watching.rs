//! An agent that watches this host's sockets while the demo runs.

use crate::shell::{built, command, quiet};
use std::fs::File;
use std::path::Path;
use std::process::Child;

/// Longer than any demo: should it be left alone, it ends by itself.
const LONGEST: &str = "15m";

/// Ends with the demo, however that ends.
pub struct Watching {
    agent: Option<Child>,
    state: String,
}

impl Watching {
    /// With its state and what it says in `folder`, beside an agent that watches this host anyway.
    pub fn start(folder: &Path) -> Watching {
        let state = folder.to_string_lossy().into_owned();
        let lock = format!("faultloom-demo-{}", std::process::id());
        let log = std::fs::create_dir_all(folder).and_then(|()| File::create(folder.join("agent.log")));
        let started = log.and_then(|log| {
            command(&built("faultloom"), &["agent", "--state", &state, "--lock", &lock, "--for", LONGEST])
                .stdout(log.try_clone()?)
                .stderr(log)
                .spawn()
        });
        Watching { agent: started.ok(), state }
    }

    /// The folder with what it saw, its last moments included; none if it could not watch.
    pub fn stop(&mut self) -> Option<String> {
        let mut agent = self.agent.take()?;
        let watches = matches!(agent.try_wait(), Ok(None));
        let asked = quiet(&mut command("kill", &["-TERM", &agent.id().to_string()]));
        if asked.is_err() {
            let _ = agent.kill();
        }
        let ended = agent.wait().is_ok_and(|status| status.success());
        (watches && ended).then(|| self.state.clone())
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        if let Some(agent) = &mut self.agent {
            let _ = agent.kill();
            let _ = agent.wait();
        }
    }
}
