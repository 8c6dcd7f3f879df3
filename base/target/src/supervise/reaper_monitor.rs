//! Replaces a reaper that was killed, so that a later kill of this process still ends all services.
//!
//! Between the death of a reaper and the start of its successor, usually a few milliseconds, nothing would end the
//! services if this process were killed too. Then `down`, or the next `up` in the same folder, ends them.

use crate::supervise::supervisor::Inner;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Between attempts while no reaper can be started, for example because no process may be created.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// After each replacement. A reaper that ends within it is replaced after it.
const REPLACEMENT_PAUSE: Duration = Duration::from_millis(100);

/// `ended`: the pids of reapers that have ended. The thread ends with the supervisor.
pub(crate) fn start(inner: &Arc<Inner>, ended: Receiver<u32>) {
    let inner = Arc::downgrade(inner);
    std::thread::spawn(move || {
        for pid in ended {
            if replace(&inner, pid).is_none() {
                return;
            }
        }
    });
}

/// None if the supervisor has ended.
fn replace(inner: &Weak<Inner>, ended: u32) -> Option<()> {
    let mut has_warned = false;
    loop {
        let inner = inner.upgrade()?;
        match inner.replace_ended_reaper(ended) {
            Ok(true) => {
                inner.warn("the reaper of this target was killed; a new one was started".to_owned());
                drop(inner);
                // the new one guards already; a series of deaths must not become a loop without pause
                std::thread::sleep(REPLACEMENT_PAUSE);
            }
            Ok(false) => {}
            Err(failure) => {
                if !has_warned {
                    inner.warn(format!(
                        "the reaper was killed and cannot be started again; if this process is killed too, run \
                         `faultloom down`: {failure}"
                    ));
                    has_warned = true;
                }
                drop(inner);
                std::thread::sleep(RETRY_PAUSE);
                continue;
            }
        }
        return Some(());
    }
}
