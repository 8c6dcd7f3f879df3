//! One watch of the store for all open pages. It reads the store only while a page listens.

use app::Context;
use app::workbench::{Change, Watch};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::broadcast;

/// Progress reaches a page at most this much later, plus the time to read it.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// The list of runs is read less often, since that opens the store: once in so many polls.
const POLLS_PER_LIST: u32 = 5;
/// Changes that a slow page may lag behind; then it misses some and reads the list again.
const BUFFER: usize = 256;

#[derive(Clone)]
pub(crate) struct Changes {
    sender: broadcast::Sender<Change>,
    /// A page began to listen after the last look.
    has_joined: Arc<AtomicBool>,
}

impl Changes {
    /// Starts the watch, which ends with the runtime.
    pub fn watch(context: Context) -> Changes {
        let changes = Changes { sender: broadcast::Sender::new(BUFFER), has_joined: Arc::default() };
        let (sender, has_joined) = (changes.sender.clone(), changes.has_joined.clone());
        tokio::spawn(async move {
            let mut watch = Watch::default();
            let mut polls = 0;
            loop {
                tokio::time::sleep(POLL_INTERVAL).await;
                if sender.receiver_count() == 0 {
                    continue;
                }
                let mut seen = watch.poll_progress();
                let is_new = has_joined.swap(false, Ordering::Relaxed);
                if is_new || polls % POLLS_PER_LIST == 0 {
                    match watch.poll_runs(&context).await {
                        Ok(change) => seen.extend(change),
                        Err(failure) => tracing::debug!(%failure, "the store cannot be read"),
                    }
                }
                if is_new {
                    // the page reads the list now; later changes are relative to the poll above, so it misses none
                    seen.push(Change::Runs);
                }
                polls += 1;
                for change in seen {
                    // an error means that no page listens anymore, which the next round checks
                    let _ = sender.send(change);
                }
            }
        });
        changes
    }

    pub fn listen(&self) -> broadcast::Receiver<Change> {
        let receiver = self.sender.subscribe();
        self.has_joined.store(true, Ordering::Relaxed);
        receiver
    }
}
