//! Delivers queued windows to a store, with retries. Both writers of the agent use it: the local writer with a queue in
//! memory, the fleet writer with a spool on disk.
//!
//! ```text
//! Window ──Inbox::enqueue──▶ WindowQueue ──Delivery::deliver──▶ WindowStore
//! ```
//!
//! A store that fails is retried with a growing delay. A window that the store rejects for its content would block the
//! queue, so the windows of a rejected batch are sent one by one and only the rejected ones are removed. Every lost
//! window is counted in the losses of the next one.

use crate::backoff::Backoff;
use crate::stores::WindowStore;
use flows::{Losses, Window};
use model::{Failure, Family};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bounded queue of windows, oldest first. Appending to a full queue drops the oldest windows. A queue that is appended
/// to while a batch is delivered, such as the spool, must not drop windows of that batch before they are removed.
pub trait WindowQueue: Send {
    fn append(&mut self, window: Window) -> Result<(), Failure>;
    /// At most `max` of the oldest windows. They stay in the queue.
    fn oldest(&mut self, max: usize) -> Result<Vec<Arc<Window>>, Failure>;
    /// Removes the oldest `count` windows.
    fn remove(&mut self, count: usize) -> Result<(), Failure>;
    /// Drops the oldest window, because the store rejects it. The window is dropped even if this fails.
    fn reject_oldest(&mut self) -> Result<(), Failure>;
    fn len(&self) -> u64;
    /// Number of windows dropped since the queue was created: the queue was full, or the store rejected them.
    fn dropped(&self) -> u64;
}

/// The local writer's queue. It is not on disk, because a spool on the same disk would not help if that disk is full.
/// Only one task may use it, because an append can drop windows of a batch that is being delivered.
pub struct MemoryQueue {
    windows: VecDeque<Arc<Window>>,
    max_flows: usize,
    dropped: u64,
    /// Losses recorded in dropped windows, moved to the next appended one.
    carried: Losses,
}

impl MemoryQueue {
    /// A window counts as its flows plus one. The newest window is always kept.
    pub fn new(max_flows: usize) -> MemoryQueue {
        MemoryQueue { windows: VecDeque::new(), max_flows, dropped: 0, carried: Losses::default() }
    }

    fn drop_oldest(&mut self) {
        if let Some(window) = self.windows.pop_front() {
            self.carried.add(&window.losses);
            self.dropped += 1;
        }
    }
}

impl WindowQueue for MemoryQueue {
    fn append(&mut self, mut window: Window) -> Result<(), Failure> {
        window.losses.add(&std::mem::take(&mut self.carried));
        self.windows.push_back(Arc::new(window));
        let mut flows: usize = self.windows.iter().map(|w| w.flows.len() + 1).sum();
        while flows > self.max_flows && self.windows.len() > 1 {
            flows -= self.windows[0].flows.len() + 1;
            self.drop_oldest();
        }
        Ok(())
    }

    fn oldest(&mut self, max: usize) -> Result<Vec<Arc<Window>>, Failure> {
        Ok(self.windows.iter().take(max).cloned().collect())
    }

    fn remove(&mut self, count: usize) -> Result<(), Failure> {
        self.windows.drain(..count.min(self.windows.len()));
        Ok(())
    }

    fn reject_oldest(&mut self) -> Result<(), Failure> {
        self.drop_oldest();
        Ok(())
    }

    fn len(&self) -> u64 {
        self.windows.len() as u64
    }

    fn dropped(&self) -> u64 {
        self.dropped
    }
}

type SharedQueue = Arc<Mutex<dyn WindowQueue>>;

fn lock(queue: &SharedQueue) -> MutexGuard<'_, dyn WindowQueue + 'static> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Maximum number of windows recorded in one transaction.
const BATCH: usize = 60;

/// The producing end of a queue.
pub struct Inbox {
    queue: SharedQueue,
    appending: Backoff,
    /// Windows that could not be appended, to be counted in the losses of the next one.
    not_appended: u64,
    /// Value of [`WindowQueue::dropped`] at the last append.
    dropped: u64,
    lost: u64,
}

impl Inbox {
    /// Appends a window and counts the windows lost since the last one in its losses. Returns messages for the
    /// operator.
    pub fn enqueue(&mut self, mut window: Window) -> Option<String> {
        let mut queue = lock(&self.queue);
        let dropped = queue.dropped() - self.dropped;
        self.dropped += dropped;
        self.lost += dropped;
        window.losses.windows += dropped + self.not_appended;
        let windows_lost = window.losses.windows + 1;
        match queue.append(window) {
            Ok(()) => {
                self.not_appended = 0;
                self.appending.record_success()
            }
            Err(failure) => {
                self.not_appended = windows_lost;
                self.lost += 1;
                self.appending.record_failure(&failure)
            }
        }
    }

    /// Number of windows lost so far: dropped by the queue, or not appended.
    pub fn lost(&self) -> u64 {
        self.lost + lock(&self.queue).dropped() - self.dropped
    }

    pub fn waiting(&self) -> u64 {
        lock(&self.queue).len()
    }
}

/// Result of one attempt to deliver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// The queue is empty.
    Idle,
    /// Windows left the queue, or the next attempt sends fewer of them. Continue at once.
    Progress,
    /// The store or the queue failed. Wait before the next attempt.
    Retry(Duration),
}

/// The consuming end of a queue.
pub struct Delivery<S> {
    queue: SharedQueue,
    store: S,
    storing: Backoff,
    /// Advice that is added to failures of the store.
    advice: Option<&'static str>,
    /// Number of windows to send one by one, after a batch was rejected.
    one_by_one: usize,
    rejection_reported: bool,
    failures: Arc<AtomicU64>,
}

/// Creates both ends of a queue in front of a store. `subject` names the store in messages.
pub fn retry_queue<S: WindowStore>(
    queue: impl WindowQueue + 'static,
    store: S,
    subject: &'static str,
    advice: Option<&'static str>,
) -> (Inbox, Delivery<S>) {
    let dropped = queue.dropped();
    let queue: SharedQueue = Arc::new(Mutex::new(queue));
    let inbox = Inbox { queue: queue.clone(), appending: Backoff::new("the spool"), not_appended: 0, dropped, lost: 0 };
    let delivery = Delivery {
        queue,
        store,
        storing: Backoff::new(subject),
        advice,
        one_by_one: 0,
        rejection_reported: false,
        failures: Arc::default(),
    };
    (inbox, delivery)
}

impl<S: WindowStore> Delivery<S> {
    pub fn store(&mut self) -> &mut S {
        &mut self.store
    }

    /// Number of failed attempts and rejected windows; still valid after the delivery moved to a task.
    pub fn failures(&self) -> Arc<AtomicU64> {
        self.failures.clone()
    }

    /// Attempts to deliver one batch. Appends messages for the operator.
    pub async fn deliver(&mut self, messages: &mut Vec<String>) -> Attempt {
        let max = if self.one_by_one > 0 { 1 } else { BATCH };
        let batch = lock(&self.queue).oldest(max);
        let batch = match batch {
            Ok(batch) => batch,
            Err(failure) => return self.fail(failure, messages),
        };
        if batch.is_empty() {
            return Attempt::Idle;
        }
        let recorded = self.store.record(&batch).await;
        let count = batch.len();
        drop(batch);
        let delivered = recorded.and_then(|()| lock(&self.queue).remove(count));
        match delivered {
            Ok(()) => {
                tracing::trace!(count, "windows delivered");
                self.one_by_one = self.one_by_one.saturating_sub(1);
                messages.extend(self.storing.record_success());
                Attempt::Progress
            }
            Err(failure) if failure.family == Family::Request && count > 1 => {
                tracing::debug!(count, "batch rejected, sending its windows one by one");
                self.one_by_one = count;
                Attempt::Progress
            }
            Err(failure) if failure.family == Family::Request => {
                self.one_by_one = self.one_by_one.saturating_sub(1);
                messages.extend(self.reject(failure));
                Attempt::Progress
            }
            Err(failure) => self.fail(failure, messages),
        }
    }

    fn fail(&mut self, failure: Failure, messages: &mut Vec<String>) -> Attempt {
        self.failures.fetch_add(1, Ordering::Relaxed);
        tracing::debug!(what = failure.what, why = failure.why, "delivery failed");
        let failure = match self.advice {
            Some(advice) => failure.next(advice),
            None => failure,
        };
        messages.extend(self.storing.record_failure(&failure));
        let delay = self.storing.delay();
        tracing::debug!(?delay, waiting = lock(&self.queue).len(), "retrying later");
        Attempt::Retry(delay)
    }

    /// Removes a rejected window. Only the first rejection is reported.
    fn reject(&mut self, failure: Failure) -> Option<String> {
        self.failures.fetch_add(1, Ordering::Relaxed);
        tracing::debug!(what = failure.what, why = failure.why, "window rejected");
        let rejected = lock(&self.queue).reject_oldest();
        let failure = rejected.err().unwrap_or(failure);
        (!std::mem::replace(&mut self.rejection_reported, true)).then(|| failure.to_string())
    }
}
