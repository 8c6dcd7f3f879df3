//! Replaces a reaper that was killed, so that a later kill of this process still ends all services.
//!
//! Between the death of a reaper and the start of its successor, usually a few milliseconds, nothing would end
//! what was started if this process were killed too. Services are then ended by `down`, or the next `up` in the folder.

use model::Failure;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Between attempts while no reaper can be started, for example because no process may be created.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// After each replacement. A reaper that ends within it is replaced after it.
const REPLACEMENT_PAUSE: Duration = Duration::from_millis(100);

/// The warning after a replacement.
pub(crate) const REPLACED: &str = "the reaper was killed; a new one was started";

/// What has a reaper.
pub(crate) trait MonitoredReaper: Send + Sync + 'static {
    /// Starts a new reaper if the current one is `ended`, which was killed. Returns whether it did.
    fn replace_ended_reaper(&self, ended: u32) -> Result<bool, Failure>;

    /// What to do if this process is killed while it has no reaper.
    const ADVICE: &str;

    fn warn(&self, message: String);
}

/// `ended`: the pids of reapers that have ended. The thread ends with `inner`.
pub(crate) fn start<T: MonitoredReaper>(inner: &Arc<T>, ended: Receiver<u32>) {
    let inner = Arc::downgrade(inner);
    std::thread::spawn(move || {
        for pid in ended {
            if replace(&inner, pid).is_none() {
                return;
            }
        }
    });
}

/// None if `inner` was dropped.
fn replace<T: MonitoredReaper>(inner: &Weak<T>, ended: u32) -> Option<()> {
    let mut has_warned = false;
    loop {
        let inner = inner.upgrade()?;
        match inner.replace_ended_reaper(ended) {
            Ok(true) => {
                inner.warn(REPLACED.to_owned());
                drop(inner);
                // the new one guards already; a series of deaths must not become a loop without pause
                std::thread::sleep(REPLACEMENT_PAUSE);
            }
            Ok(false) => {}
            Err(failure) => {
                if !has_warned {
                    inner.warn(format!(
                        "the reaper was killed and cannot be started again; if this process is killed too, {}: {failure}",
                        T::ADVICE
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
