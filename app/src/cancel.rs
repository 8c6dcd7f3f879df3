//! Cancellation of a use case by one call, from any thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Notify;

/// Clones share one state. Once canceled, a use case stops as soon as what it recorded is safe.
#[derive(Clone, Default)]
pub struct Cancel {
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    flag: Arc<AtomicBool>,
    notify: Notify,
}

impl Cancel {
    pub fn new() -> Cancel {
        Cancel::default()
    }

    pub fn cancel(&self) {
        self.state.flag.store(true, Ordering::SeqCst);
        self.state.notify.notify_waiters();
    }

    pub fn is_canceled(&self) -> bool {
        self.state.flag.load(Ordering::SeqCst)
    }

    /// Returns when [`Cancel::cancel`] was called, also if that was before.
    pub async fn canceled(&self) {
        loop {
            // registered before the flag is read, so that a call in between is not missed
            let notified = self.state.notify.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            if self.is_canceled() {
                return;
            }
            notified.await;
        }
    }

    /// For loops that poll: true once canceled.
    pub fn flag(&self) -> Arc<AtomicBool> {
        self.state.flag.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn canceling_ends_current_and_later_waits() {
        let cancel = Cancel::new();
        let waiting = tokio::spawn({
            let cancel = cancel.clone();
            async move { cancel.canceled().await }
        });
        tokio::task::yield_now().await;
        assert!(!cancel.is_canceled());
        cancel.cancel();
        waiting.await.unwrap();
        cancel.canceled().await;
        assert!(cancel.flag().load(Ordering::Relaxed));
    }
}
